"""No exception is too strange to be stored."""

from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from .storing_errors import raised, through_the_store


class TextFails(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TextIsNone(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class OddText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = str.__hash__


class TextIsOdd(Exception):
    def __str__(self) -> str:
        return OddText("odd")


class NothingWorks(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("no")


FAILING = property(lambda self: 1 / 0)
HIDDEN_PARTS = ("args", "__cause__", "__context__", "__suppress_context__", "__notes__", "__dict__")
Properties = type("Properties", (Exception,), {"__module__": __name__} | dict.fromkeys(HIDDEN_PARTS, FAILING))


class Meta(type):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no")


class Unhashable(Exception, metaclass=Meta):
    pass


class NamelessMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError("no")


class Nameless(Exception, metaclass=NamelessMeta):
    pass


class Childless(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("no subclasses")

    def __str__(self) -> str:
        return str(self.value)

    value: object


def childless() -> BaseException:
    error = Childless()
    error.value = object()
    return error


class Lying(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")


class OddArgument:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __hash__ = object.__hash__


def odd_notes() -> BaseException:
    error = ValueError("x")
    error.__notes__ = 5  # type: ignore[assignment]
    return error


def surrogates() -> BaseException:
    error = type("Odd", (Exception,), {"__qualname__": "\ud800", "__module__": 5})("\ud800", {"\udfff": "\ud800"})
    error.attribute = "\ud800"
    error.add_note("\ud800")
    return error  # type: ignore[no-any-return]


def holding_itself() -> BaseException:
    error = ValueError()
    itself: list[Any] = [error]
    itself.append(itself)
    error.args = (error, itself)
    error.itself = error  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextFails("x", 1),
        lambda: TextIsNone("x"),
        lambda: TextIsOdd("x"),
        lambda: NothingWorks("x"),
        lambda: Properties("x"),
        lambda: Unhashable("x"),
        lambda: Nameless("x"),
        childless,
        lambda: Lying("x"),
        lambda: ValueError(OddArgument()),
        lambda: OSError(OddArgument(), OddText("x")),
        odd_notes,
        surrogates,
        holding_itself,
        lambda: ValueError(float("nan"), float("inf")),
        lambda: ValueError(10**10_000),
        lambda: ExceptionGroup("x", [TextFails(), NothingWorks()]),
    ],
)
def test_no_exception_is_too_strange_to_be_stored(make: Callable[[], BaseException]) -> None:
    rebuilt = through_the_store(make())
    assert isinstance(rebuilt, Exception)
    assert isinstance(str(rebuilt), str)


def test_an_exception_that_cannot_be_made_again_is_caught_by_its_bases() -> None:
    class Model(pydantic.BaseModel):
        number: int

    error = raised(Model, number="x")
    rebuilt = through_the_store(error)
    assert isinstance(rebuilt, ValueError)
    assert type(rebuilt).__name__ == "ValidationError"
    assert "1 validation error for Model" in str(rebuilt)


def test_the_init_of_a_class_is_not_called_again() -> None:
    calls = []

    class Counted(Exception):
        def __init__(self, text: str) -> None:
            calls.append(text)
            super().__init__(text)

    through_the_store(Counted("x"))
    assert calls == ["x"]
