"""Errors as scripts see them: their names, their attributes, and what `raise` can name."""

import builtins
from typing import Any

from redrive import errors
from redrive.errors import Permanent
from redrive.failures.matching import lineage
from redrive.near_names import near_name
from redrive.notation.failure_names import RENAMED
from redrive.policies.report import report_of

ERROR_ATTRIBUTES = ("message", "type", "attempts")


def error_attribute(error: Any, name: str) -> Any:
    if not isinstance(error, BaseException):
        raise AttributeError(
            f"a {type(error).__name__} has no .{name}: only an error caught with `as` has attributes; "
            f'for a dict write ["{name}"]'
        )
    if name == "message":
        return str(error)
    if name == "type":
        return type(error).__name__
    report = report_of(error)
    return report.made if report is not None else 0


def catches(names: frozenset[str], error: Exception) -> bool:
    """Whether a name is that of the error's class or of one of its bases; without names, every error is caught."""
    return not names or not names.isdisjoint(lineage(type(error)))


def caught_names(written: tuple[str, ...]) -> tuple[str, ...]:
    """The current names of error classes, for names that they once had."""
    return tuple(RENAMED.get(name, name) for name in written)


ERROR_CLASSES: dict[str, type[BaseException]] = {
    name: kind
    for module in (builtins, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
"""Python's errors and those of redrive, by name."""
# The last two are names that most programs use.
_KNOWN = sorted({*ERROR_CLASSES, *RENAMED, "NetworkError", "RateLimitError"})


def error_meant(name: str) -> str:
    """The known error that a name was probably meant to be; empty when none is close, as programs name their own."""
    if name in _KNOWN or "." in name:
        return ""
    likely = [one for one in _KNOWN if abs(len(one) - len(name)) < 2]
    return near_name(name, likely, cut_off=0.85)


RAISABLE: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    # Excluded: errors that mean something to Python itself, or need more than a message.
    and not issubclass(kind, StopIteration | StopAsyncIteration | ExceptionGroup | UnicodeError | Warning)
    and name == kind.__name__
}
RAISABLE |= {"UnicodeError": UnicodeError, "Permanent": Permanent, "redrive.Permanent": Permanent}
"""The errors that `raise` can name."""
