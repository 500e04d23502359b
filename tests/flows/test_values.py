"""What comes back from the store is what went in; what could not come back is refused where it was given."""

import enum
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.errors import DeserializationError, SerializationError
from redrive.flows.values.json_limits import DEEPEST_JSON
from redrive.flows.values.signature import Signature

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Line:
    name: str
    price: Decimal
    tags: set[str] = field(default_factory=set)


@dataclass
class Order:
    id: UUID
    lines: list[Line]
    placed: datetime | None = None


@attrs.define
class Address:
    street: str
    number: int


class Card(msgspec.Struct, tag=True):
    number: str


class Invoice(msgspec.Struct, tag=True):
    due: date


class Point(NamedTuple):
    x: float
    y: float


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    when: datetime
    sizes: frozenset[int]
    label: str = pydantic.Field(default="", alias="Label")


def text(maximum: int = 20) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=maximum)


numbers = st.floats(allow_nan=False, allow_infinity=False)
wholes = st.integers(-(2**80), 2**80)
decimals = st.decimals(allow_nan=False)
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=st.none() | zones)
lines = st.builds(Line, text(), decimals, st.sets(text(), max_size=3))
plain = st.recursive(
    st.none() | st.booleans() | wholes | numbers | text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text(), inner, max_size=3),
    max_leaves=8,
)

HINTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, wholes),
    (float, numbers),
    (str, text()),
    (bytes, st.binary()),
    (bytearray, st.binary().map(bytearray)),
    (Decimal, decimals),
    (UUID, st.uuids()),
    (datetime, moments),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas()),
    (Path, st.lists(text().filter(lambda part: "\0" not in part)).map(lambda parts: Path(*parts))),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (int | None, st.none() | wholes),
    (int | str | list[bool], wholes | text() | st.lists(st.booleans())),
    (datetime | float | None, st.none() | moments | numbers),
    (list[Decimal], st.lists(decimals, max_size=3)),
    (Sequence[UUID], st.lists(st.uuids(), max_size=3)),
    (Mapping[str, date], st.dictionaries(text(), st.dates(), max_size=3)),
    (dict[int, bytes], st.dictionaries(wholes.filter(lambda n: abs(n) < 2**63), st.binary(), max_size=3)),
    (dict[UUID, Level], st.dictionaries(st.uuids(), st.sampled_from(Level), max_size=3)),
    (set[int], st.sets(wholes, max_size=5)),
    (frozenset[date], st.frozensets(st.dates(), max_size=5)),
    (tuple[int, str], st.tuples(wholes, text())),
    (tuple[timedelta, ...], st.lists(st.timedeltas(), max_size=3).map(tuple)),
    (Annotated[int, msgspec.Meta(ge=0)], st.integers(0, 2**40)),
    (Order, st.builds(Order, st.uuids(), st.lists(lines, max_size=3), st.none() | moments)),
    (Address, st.builds(Address, text(), wholes)),
    (Card | Invoice, st.builds(Card, text()) | st.builds(Invoice, st.dates())),
    (Point, st.builds(Point, numbers, numbers)),
    (Options, st.fixed_dictionaries({"depth": wholes}, optional={"name": text()})),
    (Model, st.builds(Model, when=moments, sizes=st.frozensets(st.integers(), max_size=1), Label=text())),
    (list[Model | None], st.lists(st.none() | st.builds(Model, when=moments, sizes=st.just(frozenset())), max_size=2)),
    (Any, plain),
    (dict[str, Any], st.dictionaries(text(), plain, max_size=3)),
    (list, st.lists(plain, max_size=3)),
    (object, plain),
]


def taking(hint: Any) -> Signature:
    def work(value: Any) -> Any: ...

    work.__annotations__ = {"value": hint, "return": hint}
    return Signature(work, "action work")


@pytest.mark.parametrize(("hint", "values"), HINTS, ids=[str(hint) for hint, _ in HINTS])
def test_what_is_read_equals_what_was_written(hint: Any, values: st.SearchStrategy[Any]) -> None:
    signature = taking(hint)

    @settings(max_examples=40, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        arguments = signature.bind((value,), {})
        assert arguments.values == {"value": value}
        assert type(arguments.values["value"]) is type(value)
        assert signature.read_arguments(arguments.encoded) == {"value": value}
        assert signature.bind((), arguments.values).encoded == arguments.encoded
        stored = signature.write_result(value)
        assert signature.read_result(stored) == value
        assert signature.write_result(signature.read_result(stored)) == stored

    check()


def charge(user: str, cents: int, note: str = "none", *, urgent: bool = False) -> Line:
    return Line(f"{user} {note} {urgent}", Decimal(cents))


CHARGE = Signature(charge, "action charge")


@pytest.mark.parametrize(
    ("args", "kwargs", "encoded"),
    [
        (("u", 5), {}, '{"user":"u","cents":5}'),
        (("u",), {"cents": 5}, '{"user":"u","cents":5}'),
        ((), {"urgent": True, "cents": 5, "user": "u"}, '{"user":"u","cents":5,"urgent":true}'),
        (("u", 5, "hi"), {"urgent": True}, '{"user":"u","cents":5,"note":"hi","urgent":true}'),
    ],
)
def test_the_stored_form_does_not_depend_on_how_the_call_was_written(
    args: tuple[Any, ...], kwargs: dict[str, Any], encoded: str
) -> None:
    assert CHARGE.bind(args, kwargs).encoded == encoded


def test_arguments_left_out_take_the_default_of_the_code_that_runs() -> None:
    arguments = CHARGE.bind(("u", 5), {})
    assert arguments.values == {"user": "u", "cents": 5}
    changed = Signature(lambda user, cents, note="changed": note, "action charge")
    assert changed.call_with(lambda user, cents, note="changed": note, changed.read_arguments(arguments.encoded)) == (
        "changed"
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "action charge: missing a required argument: 'user'"),
        (("u",), {}, "action charge: missing a required argument: 'cents'"),
        ((), {"cents": 5}, "action charge: missing a required argument: 'user'"),
        (("u", 5, "n", True), {}, "action charge: too many positional arguments"),
        (("u", 5), {"user": "v"}, "action charge: multiple values for argument 'user'"),
        (("u", 5), {"colour": 1}, "action charge: no argument is named 'colour'; it takes: user, cents, note, urgent"),
        (
            (),
            {"user": "u", "colour": 1},
            "action charge: no argument is named 'colour'; it takes: user, cents, note, urgent",
        ),
        ((), {"usr": "u"}, "action charge: no argument is named 'usr'; did you mean 'user'?"),
        ((object(),), {}, "action charge: missing a required argument: 'cents'"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        CHARGE.bind(args, kwargs)
    assert str(refused.value) == message
    assert not isinstance(refused.value, SerializationError)


def variadic(first: int, /, second: int = 2, *rest: Decimal, last: int = 0, **more: timedelta) -> Any:
    return first, second, rest, last, more


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {}),
        ((1, 3), {"last": 4}),
        ((1, 3, Decimal(4), Decimal("5.0")), {"last": 6}),
        ((1,), {"second": 5, "a": timedelta(1)}),
        ((1, 2, Decimal(3)), {"first": timedelta(2), "rest": timedelta(3), "more": timedelta(4)}),
    ],
)
def test_every_kind_of_parameter_is_stored_and_called_as_it_was_given(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    signature = Signature(variadic, "action variadic")
    arguments = signature.bind(args, kwargs)
    for values in (arguments.values, signature.read_arguments(arguments.encoded)):
        assert signature.call_with(variadic, values) == variadic(*args, **kwargs)


def test_variadic_arguments_are_stored_under_their_starred_names() -> None:
    encoded = Signature(variadic, "action variadic").bind((1, 2, Decimal("3.5")), {"wait": timedelta(1)}).encoded
    assert encoded == '{"first":1,"second":2,"*rest":["3.5"],"**more":{"wait":"P1D"}}'


def unpacked(**options: Unpack[Options]) -> Any:
    return options


def test_unpacked_keywords_are_read_by_their_own_hints() -> None:
    signature = Signature(unpacked, "action unpacked")
    assert signature.call_with(unpacked, signature.bind((), {"depth": 3}).values) == {"depth": 3}
    with pytest.raises(SerializationError, match=r"argument \*\*options"):
        signature.bind((), {"depth": "deep"})


def test_a_method_is_bound_without_its_instance() -> None:
    class Billing:
        def run(self, user: str) -> str:
            return f"billed {user}"

    signature = Signature(Billing.run, "workflow Billing", method=True)
    arguments = signature.bind(("u",), {})
    assert arguments.encoded == '{"user":"u"}'
    assert signature.call_with(Billing().run, arguments.values) == "billed u"


class Tagged(str):
    __slots__ = ()


class Count(int):
    pass


class Moment(datetime):
    pass


@dataclass
class GiftLine(Line):
    card: str = ""


class Opaque:
    pass


SELF_CONTAINED: list[Any] = []
SELF_CONTAINED.append(SELF_CONTAINED)


def nested(levels: int) -> Any:
    """Lists and dicts in one another, that many in all."""
    value: Any = "[" * 10
    for level in range(levels):
        value = [value] if level % 2 else {"in]{": value}
    return value


REFUSED: list[tuple[Any, Any, str]] = [
    (int, "x", "does not fit its type hint int: Expected `int`, got `str`"),
    (list[int], [1, "x"], r"Expected `int`, got `str` - at `$[1]`"),
    (Annotated[int, msgspec.Meta(ge=0)], -1, "Expected `int` >= 0"),
    (Colour, "green", "Invalid enum value 'green'"),
    (float, math.nan, "JSON has no number nan; pass None, or the number as text"),
    (float | None, math.inf, "JSON has no number inf"),
    (Any, {"deep": [-math.inf]}, "JSON has no number -inf"),
    (Point, Point(0.0, math.nan), "JSON has no number nan"),
    (list[float | None], [None, math.nan], "JSON has no number nan"),
    (float, 2**80 + 1, "an int would come back as a float"),
    (str, "\ud800", "unpaired surrogate"),
    (Any, SELF_CONTAINED, "it contains itself or is nested too deeply"),
    (Any, nested(DEEPEST_JSON + 1), "it is nested deeper than the 500 levels allowed; pass a flat list"),
    (Any, Opaque(), "JSON has no form for Opaque; use plain data, a dataclass"),
    (Opaque, Opaque(), "JSON has no form for Opaque; use plain data, a dataclass"),
    (Any, ValueError("x"), "JSON has no form for ValueError"),
    (complex, 1j, "JSON has no form for complex"),
    (Line, GiftLine("a", Decimal(1), card="hi"), "a GiftLine would come back as a Line; annotate it with GiftLine"),
    (list[Line], [GiftLine("a", Decimal(1))], "a GiftLine would come back as a Line"),
    (Options, {"depth": 1, "extra": 2}, "the key 'extra' of a dict would be lost: its type hint has no such key"),
    (Any, datetime(2026, 1, 1, tzinfo=UTC), "a datetime would come back as a str; annotate it with datetime"),
    (Any, Line("a", Decimal(1)), "a Line would come back as a dict; annotate it with Line"),
    (dict, {1: "a"}, "the key 1 of a dict would come back as text; annotate it with dict[int, ...], or use strings"),
    (Any, {"a": [{2: 3}]}, "the key 2 of a dict would come back as text"),
    (str, Colour.RED, "a Colour would come back as a str"),
    (bytes, "abcd", "a str would come back as a bytes"),
    (list[int], {1, 2}, "a set would come back as a list"),
    (Model, {"when": "now"}, "does not fit its type hint Model"),
    (Any, b"bytes", "a bytes would come back as a str"),
]


def test_what_is_nested_as_deeply_as_allowed_comes_back_however_deep_the_reader_is_itself() -> None:
    text = taking(Any).write_result(deep := nested(DEEPEST_JSON))

    def read(calls: int) -> Any:
        return read(calls - 1) if calls else taking(Any).read_result(text)

    assert read(300) == deep
    # Much that stands side by side is not deep, whatever its texts look like.
    for flat in ([{"a": [n, "]}[{" * 9]} for n in range(3000)], ["[" * 5000], ['\\"[{' * 600]):
        assert taking(Any).read_result(taking(Any).write_result(flat)) == flat


def test_what_is_nested_too_deeply_is_found_behind_much_that_is_not() -> None:
    deep = nested(DEEPEST_JSON - 1)
    taking(Any).write_result([deep] * 70)
    with pytest.raises(SerializationError, match="nested deeper than the 500 levels"):
        taking(Any).write_result([deep, deep, [deep]])


@pytest.mark.parametrize(("hint", "value", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_would_not_come_back_is_refused_where_it_is_given(hint: Any, value: Any, message: str) -> None:
    signature = taking(hint)
    with pytest.raises(SerializationError) as refused:
        signature.bind((), {"value": value})
    assert str(refused.value).startswith("action work: argument value cannot be stored: ")
    assert message in str(refused.value)
    with pytest.raises(SerializationError) as refused:
        signature.write_result(value)
    assert str(refused.value).startswith("action work: its result cannot be stored: ")
    assert message in str(refused.value)


@dataclass(eq=False)
class Unequal:
    names: tuple[str, ...]
    when: Any = None


@pytest.mark.parametrize(
    ("hint", "value", "read"),
    [
        (tuple[int, ...], [1, 2], (1, 2)),
        (Any, (1, (2,)), [1, [2]]),
        (float, 3, 3.0),
        (str, Tagged("x"), "x"),
        (int, Count(3), 3),
        (datetime, Moment(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        (dict[str, tuple[Line, ...]], {"a": [Line("a", Decimal(1))]}, {"a": (Line("a", Decimal(1)),)}),
        (Line, Line("a", Decimal("1.0")), Line("a", Decimal(1))),
    ],
)
def test_an_equal_value_of_another_form_is_taken_as_it_will_be_read(hint: Any, value: Any, read: Any) -> None:
    """The run that goes on and the one that is replayed see the same."""
    arguments = taking(hint).bind((value,), {})
    assert arguments.values["value"] == read
    assert type(arguments.values["value"]) is type(read)


def test_values_that_do_not_compare_are_told_by_their_fields() -> None:
    signature = taking(Unequal)
    assert signature.bind((Unequal(("a", "b")),), {}).values["value"].names == ("a", "b")
    with pytest.raises(SerializationError, match="a date would come back as a str"):
        signature.bind((Unequal((), date(2026, 1, 1)),), {})


def test_the_hour_that_a_zone_repeats_is_stored() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    moment = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1)
    stored = taking(datetime).write_result(moment)
    assert taking(datetime).read_result(stored).timestamp() == moment.timestamp()


def test_a_value_that_is_too_large_is_refused_with_its_size() -> None:
    with pytest.raises(SerializationError, match=r"8,388,611 bytes of JSON are more than the 8,388,608 allowed"):
        taking(str).write_result("x" * (8 * 1024 * 1024 + 1))

    def work(a: str, b: str) -> None: ...

    small = Signature(work, "action work", longest=20)
    with pytest.raises(SerializationError, match=r"argument b cannot be stored: 32 bytes"):
        small.bind(("a", "b" * 30), {})
    with pytest.raises(SerializationError, match=r"its arguments cannot be stored: 27 bytes"):
        small.bind(("a" * 6, "b" * 6), {})


@pytest.mark.promise("P18")
@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (
            '{"user":"u","cents":"five"}',
            r"its arguments cannot be read from the store: Expected `int`, got `str` - at `\$.cents`; "
            r"the type hint is \(user: str, cents: int.*\) now",
        ),
        ('{"user":"u"}', "Object missing required field `cents`"),
        ('{"user":"u","cents":5,"colour":"red"}', "stored argument colour is no longer one of its parameters"),
        ('{"user":', "cannot be read from the store"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
def test_stored_arguments_that_do_not_fit_the_code_are_a_poison_pill(encoded: str, message: str) -> None:
    with pytest.raises(DeserializationError, match=f"^action charge: .*{message}"):
        CHARGE.read_arguments(encoded)


@pytest.mark.promise("P18")
def test_a_stored_result_that_does_not_fit_the_code_is_a_poison_pill() -> None:
    with pytest.raises(
        DeserializationError, match=r"^action charge: its result cannot be read from the store: .*`\$.price`"
    ):
        CHARGE.read_result('{"name":"a","price":"much"}')


def later(order: "LaterDefined") -> "list[LaterDefined]":
    return [order]


@dataclass
class LaterDefined:
    id: int


def test_hints_may_name_types_that_are_defined_further_down() -> None:
    assert Signature(later, "action later").bind((LaterDefined(1),), {}).values == {"order": LaterDefined(1)}


def unresolved(value: "Fraction") -> None: ...


def two_dataclasses(user: str, which: Line | Address) -> Line | Address:
    return which


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            unresolved,
            r"^action f: its type hints cannot be read: name 'Fraction' is not defined; define or import it at",
        ),
        (
            two_dataclasses,
            r"^action f: argument which: the type hint .*Line \| .*Address cannot be stored: Type unions",
        ),
    ],
)
def test_a_hint_that_cannot_be_used_is_named_at_first_use(function: Callable[..., Any], message: str) -> None:
    signature = Signature(function, "action f")
    with pytest.raises(TypeError, match=message):
        signature.bind((1, 2), {})


def test_a_hint_of_a_result_that_cannot_be_used_is_named() -> None:
    with pytest.raises(TypeError, match=r"^action f: its result: the type hint .* cannot be stored: Type unions"):
        Signature(two_dataclasses, "action f").write_result(1)


def test_equal_sets_have_the_same_text_in_every_process() -> None:
    """The order of a set depends on the process; a replay must not take it for another value."""
    script = (
        "from redrive.flows.values.signature import Signature\n"
        "def f(names: set[str], *, deep: dict[str, frozenset[str]]): ...\n"
        "names = {str(n) for n in range(50)}\n"
        "print(Signature(f, 'f').bind((names,), {'deep': {'a': frozenset(names)}}).encoded)"
    )
    texts = {
        subprocess.run(  # noqa: S603 - our own script
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, timeout=60
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_dicts_keep_their_order() -> None:
    assert list(taking(dict[str, int]).bind(({"b": 1, "a": 2},), {}).values["value"]) == ["b", "a"]


def test_arguments_do_not_show_their_values() -> None:
    arguments = CHARGE.bind(("hunter2", 5), {})
    assert "hunter2" not in repr(arguments)


def test_a_refusal_does_not_show_secrets() -> None:
    with pytest.raises(SerializationError) as refused:
        taking(Colour).bind(("password=hunter2",), {})
    assert "hunter2" not in str(refused.value)


def test_nothing_is_needed_of_pydantic_unless_a_model_is_used() -> None:
    script = "import sys, redrive.flows.values.signature; print('pydantic' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert finished.stdout.strip() == "False", finished.stderr
