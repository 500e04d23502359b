"""A million steps are a second or two of work, whatever a script does: work counts as much as it is large."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from tests.flows.scripts.driving import NONE, drive

from redrive.cli import loop_watch
from redrive.errors import ScriptLimitError
from redrive.flows.scripts import compiled_statements, execution
from redrive.flows.scripts.builtins import BUILTINS, Builtin
from redrive.flows.scripts.error_values import catches
from redrive.flows.scripts.execution import MOST_STEPS, Execution, Frame, OutOfSteps, TooLarge, TooMuch
from redrive.flows.scripts.held import Held
from redrive.flows.scripts.interpreter import Program
from redrive.flows.scripts.operations import ARITHMETIC, COMPARISONS, IN_PLACE, UNARY
from redrive.flows.scripts.parsing import parse
from redrive.flows.scripts.sizes import size_of

Sized = Callable[[int], tuple[Any, ...]]
LEAST = 200
"""Characters or elements that may be one step at most, whatever is done with them."""


def text(size: int) -> str:
    return "1" * size


def numbers(size: int) -> list[int]:
    return list(range(size))


def mapping(size: int) -> dict[str, int]:
    return {str(key): key for key in range(size)}


OF_BUILTINS: dict[str, list[Sized]] = {
    "int": [lambda size: (text(size),)],
    "float": [lambda size: (text(size),)],
    "sum": [lambda size: (numbers(size),), lambda size: (range(size),)],
    "min": [lambda size: (numbers(size),), lambda size: (text(size),), lambda size: (text(size), text(size))],
    "max": [lambda size: (numbers(size),), lambda size: (range(size),)],
    "str": [lambda size: (numbers(size),), lambda size: ([[text(size)]],)],
    "lower": [lambda size: (text(size),)],
    "upper": [lambda size: (text(size),)],
    "strip": [lambda size: (" " * size,)],
    "split": [lambda size: (text(size), "b"), lambda size: ("a " * size,)],
    "join": [lambda size: (",", ["a"] * size), lambda size: ("", text(size))],
    "list": [lambda size: (numbers(size),), lambda size: (text(size),), lambda size: (mapping(size),)],
    "dict": [lambda size: (mapping(size),), lambda size: ([[str(key), key] for key in range(size)],)],
    "sorted": [lambda size: (numbers(size),), lambda size: (text(size),), lambda size: (range(size),)],
    "keys": [lambda size: (mapping(size),)],
    "values": [lambda size: (mapping(size),)],
    "items": [lambda size: (mapping(size),)],
}
OF_ONE_STEP = {"abs", "round", "len", "range", "bool", "now", "random", "uuid", "flow_id"}


def like(value: Any) -> tuple[Any, Any]:
    """Equal, but not the same."""
    return value, value[:1] + value[1:]


OF_OPERATORS: dict[str, list[Sized]] = {
    "+": [lambda size: (numbers(size), numbers(size))],
    "*": [lambda size: ([1], size)],
    **{sign: [lambda size: like(text(size)), lambda size: like(numbers(size))] for sign in ("==", "!=", "<", "<=")},
    **{sign: [lambda size: like(text(size)), lambda size: like([[1]] * size)] for sign in (">", ">=")},
    **{
        sign: [
            lambda size: ("b", text(size)),
            lambda size: (-1, numbers(size)),
            lambda size: (0.5, range(size)),
            lambda size: ([1], [[2]] * size),
            lambda size: (text(size), [text(size - 1) + "2"]),
            lambda size: (text(size), {text(size): 1}),
        ]
        for sign in ("in", "not in")
    },
}
OF_NUMBERS = {"-", "/", "//", "%", "**", "is", "is not"}


def steps_of(run: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    counting = Execution("order")
    with suppress(ScriptLimitError, ValueError):
        run(Frame(counting, {}, 1, 0), *arguments)
    return counting.steps


SIZES = [1000, 3456, 30_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OF_BUILTINS)
def test_a_builtin_counts_what_it_looks_at(name: str, size: int) -> None:
    for sized in OF_BUILTINS[name]:
        assert steps_of(BUILTINS[name].run, sized(size)) >= size // LEAST


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sign", OF_OPERATORS)
def test_an_operator_counts_what_it_looks_at(sign: str, size: int) -> None:
    for sized in OF_OPERATORS[sign]:
        for table in (ARITHMETIC, IN_PLACE, COMPARISONS):
            if sign in table:
                assert steps_of(table[sign], sized(size)) >= size // LEAST


def test_nothing_is_left_out_of_these_tables() -> None:
    assert {*OF_BUILTINS} | OF_ONE_STEP == {*BUILTINS}
    assert {*OF_OPERATORS} | OF_NUMBERS == {*ARITHMETIC, *IN_PLACE, *COMPARISONS}
    assert {*UNARY} == {"-", "+", "not"}


@pytest.mark.parametrize("sign", ["*", "//", "%", "/", "**"])
def test_work_with_large_numbers_counts_by_the_length_of_both(sign: str) -> None:
    operands = {"**": (3, 6000), "/": (2**9000, 2**8999)}.get(sign, (2**9000 + 1, 2**4000 + 1))
    assert steps_of(ARITHMETIC[sign], operands) >= 30
    assert steps_of(ARITHMETIC[sign], (7, 3)) == 0
    assert steps_of(BUILTINS["str"].run, (2**9000,)) >= 30
    assert steps_of(BUILTINS["round"].run, (2**9000, -100)) >= 30


@pytest.mark.parametrize("size", SIZES)
def test_sorting_counts_more_than_the_elements(size: int) -> None:
    assert steps_of(BUILTINS["sorted"].run, (numbers(size),)) >= size * (size.bit_length() - 1) // 20


SHUFFLED = [number * 7919 % 99_991 for number in range(99_991)]


def turns(source: str, inputs: Mapping[str, Any] = NONE, most: int = MOST_STEPS) -> int:
    """How often a script that goes on and on comes by its `now()`."""
    count = 0

    def counted(frame: Frame) -> int:
        nonlocal count
        count += 1
        return 0

    with (
        mock.patch.dict(BUILTINS, now=Builtin(counted, BUILTINS["now"].signature, "")),
        mock.patch.object(compiled_statements, "MOST_STEPS", most),
        mock.patch.object(execution, "MOST_STEPS", most),
    ):
        # Compiled anew, with the one that counts.
        program = Program(parse(source))
        with pytest.raises(OutOfSteps):
            asyncio.run(program.run("order", "main", inputs))
    return count


@pytest.mark.parametrize(
    ("line", "before", "most"),
    [
        ("y = float(t)", "t = '1' * 1000000", 20),
        ("y = sorted(x)", "pass", 20),
        ("y = strip(t)", "t = ' ' * 1000000", 100),
        ("y = [t] * 500 == [u] * 500", "t = 'a' * 9000\n    u = 'a' * 8999 + 'b'", 12),
        ("y = t in [u] * 100", "t = 'a' * 99999\n    u = 'a' * 99998 + 'b'", 12),
        ("y = d[u]", "t = 'a' * 999999\n    u = 'a' * 999999\n    d = {t: 1}", 60),
        ("d[u] = 1", "t = 'a' * 999999\n    u = 'a' * 999999\n    d = {t: 1}", 60),
        ("y = {t: 1, u: 2}", "t = 'a' * 999999\n    u = 'a' * 999999", 60),
        ("y = dict([[t, 1], [u, 2]])", "t = 'a' * 999999\n    u = 'a' * 999999", 60),
        ("y = dict([{t: 1, 1: 1}, {u: 2, 1: 1}])", "t = 'a' * 999999\n    u = 'a' * 999999", 60),
        ("y = t[::-1]", "t = 'a' * 999999", 60),
        ("y = str([1e300] * 9000)", "pass", 40),
    ],
)
def test_what_takes_long_is_done_a_few_times_only(line: str, before: str, most: int) -> None:
    source = f"fn main(x):\n    {before}\n    while True:\n        {line}\n        now()\n"
    assert 0 < turns(source, {"x": SHUFFLED}, most=500_000) <= most


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("1 // 0", 30_000),
        ("sorted('b' * 200000)", 3000),
        ("f(t)", 30),
        ("str([t] * 1000)", 30),
        ("split(t, 'a')", 30),
        ("sum([2 ** 9999] * 9999)", 30),
        ("message(t)", 30),
    ],
)
def test_what_is_refused_counts_too(expression: str, most: int) -> None:
    source = f"""
fn main():
    t = 'a' * 999999
    while True:
        try:
            y = {expression}
        except:
            now()
fn f(t):
    sleep t
fn message(t):
    try:
        raise KeyError(t)
    except KeyError as error:
        return error.message
"""
    assert 0 < turns(source, most=300_000) <= most


LONG = " + ".join(["1"] * 2000)
NAMES = ", ".join(f"a{number}" for number in range(6000))
HANDLERS = "".join(
    f"        except {number}:\n            pass\n" for number in [*NAMES.split(", ")[:600], "Exception"]
)
BRANCHES = "            f(1)\n" * 150


@pytest.mark.parametrize(
    "source",
    [
        f"fn main():\n    while True:\n        x = {LONG}\n        now()\n",
        f"fn main():\n    while {LONG}:\n        now()\n",
        f"fn main():\n    while True:\n        f()\nfn f(x={LONG}):\n    now()\n",
        f"fn main():\n    while True:\n        if now():\n            pass\n        elif {LONG}:\n            pass\n",
        "fn main():\n    while True:\n        now()\n        x = spread range(400):n -> f(n)\nfn f(n):\n    pass\n",
        f"fn main():\n    for {NAMES} in [list(range(6000))] * 9000:\n        now()\n    while True:\n        pass\n",
        f"fn main():\n    while True:\n        try:\n            x = now() // 0\n{HANDLERS}",
        f"fn main():\n    while True:\n        now()\n        parallel:\n{BRANCHES}fn f(n):\n    pass\n",
    ],
    ids=["expression", "test", "default", "elif", "spread", "unpacking", "handlers", "parallel"],
)
def test_a_long_line_is_more_than_one_step(source: str) -> None:
    assert 0 < turns(source, most=20_000) <= 40


def test_keys_that_python_would_look_for_long_are_refused() -> None:
    """Multiples of this number all stand at one place of a dict."""
    same_place = 2**61 - 1
    for line in (f"x = {{{same_place}: 1}}", f"x = {{}}\n    x[{same_place}] = 1", f"x = dict([[{same_place}, 1]])"):
        error = drive(f"fn main():\n    {line}\n").error
        assert isinstance(error, TooLarge), line
        assert "the key of a dict would have more than 60 bits" in str(error)
    assert drive("x = {1152921504606846975: 1, -3: 2}\nreturn x[-3]\n").result == 2


@pytest.mark.parametrize("value", ["[t] * 20", "{'a': [t] * 20}"])
def test_values_with_too_many_characters_do_not_leave_a_script(value: str) -> None:
    for use in (f"return {value}", f"@rd.work(n={value})"):
        error = drive(f"fn main():\n    t = 'a' * 1000000\n    {use}\n").error
        assert isinstance(error, TooLarge)
        assert "script order, line 3: " in str(error)


def test_whoever_asks_where_a_script_is_gets_its_line() -> None:
    said: list[str] = []

    def ask(frame: Frame) -> None:
        said.append(loop_watch._place(sys._getframe(1)))

    with mock.patch.dict(BUILTINS, now=Builtin(ask, BUILTINS["now"].signature, "")):
        drive("fn main():\n    if True:\n        deeper()\n    @rd.work(n=1)\n    now()\nfn deeper():\n    now()\n")
    assert said == [" at script order, line 7", " at script order, line 5"]


def test_the_names_of_a_handler_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: a failure is compared with none of them one by one."""
    names = ", ".join(f"E{number}" for number in range(3000))
    tried = f"        try:\n            x = now() // 0\n        except ({names}, Exception):\n            pass\n"
    source = f"fn main():\n    while True:\n{tried}"
    seen: list[Any] = []

    def seeing(known: Any, error: Exception) -> bool:
        seen.append(known)
        return catches(known, error)

    monkeypatch.setattr("redrive.flows.scripts.compiled_statements.catches", seeing)
    turns(source, most=200)
    assert all(one is seen[0] for one in seen)
    assert isinstance(seen[0], frozenset)


@pytest.mark.parametrize("base", [1, -1, 0, True, False])
@pytest.mark.parametrize("exponent", [1, 2, 2**9999, 2**9999 + 1, True])
def test_powers_of_one_and_zero_are_known_without_work(base: int, exponent: int) -> None:
    small = 2 - exponent % 2
    for table in (ARITHMETIC, IN_PLACE):
        result = table["**"](Frame(Execution("order"), {}, 1, 0), base, exponent)
        assert result == base**small
        assert type(result) is int


def test_powers_with_long_exponents_take_no_time() -> None:
    """Python itself needs a tenth of a millisecond for each."""
    source = "fn main():\n    big = 2 ** 9999\n    for i in range(9000):\n        x = 1 ** big\n    return x\n"
    begun = time.process_time()
    assert drive(source).result == 1
    assert time.process_time() - begun < 0.5


def test_a_long_text_may_be_built_line_by_line() -> None:
    source = 'text = ""\nfor i in range(5000):\n    text += "order number " + str(i) + "\\n"\nreturn len(text)\n'
    with (
        mock.patch.object(execution, "MOST_STEPS", MOST_STEPS // 4),
        mock.patch.object(compiled_statements, "MOST_STEPS", MOST_STEPS // 4),
    ):
        assert drive(source).result == 88_890


def test_who_is_out_of_steps_learns_where_and_what_to_do() -> None:
    error = drive("fn main():\n    t = 'a' * 999999\n    while True:\n        x = t + 'b'\n").error
    assert isinstance(error, OutOfSteps)
    assert str(error).startswith("script order, line ")
    assert 'build long texts with join("", parts)' in str(error)
    assert "work with large data in an action" in str(error)


@pytest.mark.parametrize(
    "use", ["x = range(0, 2 ** 9999, 2 ** 5000)", "x = range(9)[::2 ** 9999]", "x = range(2 ** 60)"]
)
def test_ranges_of_large_numbers_are_refused(use: str) -> None:
    error = drive(f"fn main():\n    {use}\n").error
    assert isinstance(error, TooLarge)
    assert "a whole number of a range would have more than 60 bits" in str(error)


def test_errors_are_as_large_as_what_they_hold() -> None:
    source = """
fn main():
    try:
        try:
            raise ValueError("x" * 1000000)
        except ValueError as inner:
            raise ValueError(inner)
    except ValueError as error:
        return str([error] * 3000)
"""
    error = drive(source).error
    assert isinstance(error, TooLarge)
    held = ValueError(ValueError(["x" * 5000]))
    assert size_of([held, held]).characters == size_of(held).characters * 2 == 10_000


@pytest.mark.parametrize(
    "line", ['kept += ["a" * 999000 + str(i)]', "kept += [list(range(99000))]", "kept += [failed(i)]"]
)
def test_what_a_script_holds_is_bounded_over_all_its_waits(line: str) -> None:
    source = f"""
fn main():
    kept = []
    for i in range(1500):
        {line}
        if i % 5 == 0:
            @rd.note(what=1)
    return "all"
fn failed(i):
    try:
        raise ValueError("a" * 999000 + str(i))
    except ValueError as error:
        return error
"""
    driven = drive(source)
    assert isinstance(driven.error, TooMuch)
    assert str(driven.error).startswith("script order, line ")
    assert len(driven.calls) < 30


def test_what_a_script_dropped_does_not_count() -> None:
    source = 'for i in range(300):\n    x = "a" * 999000 + str(i)\n    d = {}\n    @rd.note(what=1)\nreturn i\n'
    assert drive(source).result == 299


def test_while_it_waits_nothing_is_kept_that_it_dropped() -> None:
    held = Held(1000)
    held.add("a" * 200_000, 200_000)
    held.rest()
    assert held.add([], 0)
    assert len(held._values) == 1


def test_a_lack_of_memory_fails_the_flow_in_one_line() -> None:
    def lacking(frame: Frame) -> None:
        raise MemoryError

    with mock.patch.dict(BUILTINS, now=Builtin(lacking, BUILTINS["now"].signature, "")):
        error = drive("# Without memory.\nfn main():\n    pass\n    now()\n").error
    assert isinstance(error, ScriptLimitError)
    assert str(error).startswith("script order, line 4: no memory was left")


def test_each_call_of_a_spread_sees_the_variables_around_it() -> None:
    source = """
fn main():
    a = 1
    n = 5
    x = spread [10, 20]:n -> f(n + a, b=[n])
    return x + [n]
fn f(x, b=0):
    return [x, b]
"""
    assert drive(source).result == [[11, [10]], [21, [20]], 5]
