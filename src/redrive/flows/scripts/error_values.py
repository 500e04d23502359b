"""Failures as scripts see them: what `except` catches by name, what it can be asked for, and what `raise` names."""

import builtins
from difflib import get_close_matches
from typing import Any

from redrive import errors
from redrive.errors import Permanent
from redrive.failures.matching import lineage
from redrive.notation.failure_names import RENAMED
from redrive.policies.report import report_of

ERROR_ATTRIBUTES = ("message", "type", "attempts")


def error_attribute(error: Any, name: str) -> Any:
    if not isinstance(error, BaseException):
        raise AttributeError(
            f"a {type(error).__name__} has no .{name}: only an error has, in its `except ... as`; "
            f'the parts of data are taken with ["{name}"]'
        )
    if name == "message":
        return str(error)
    if name == "type":
        return type(error).__name__
    report = report_of(error)
    return report.made if report is not None else 0


def catches(names: frozenset[str], error: Exception) -> bool:
    """Whether one of the names is that of the error's class, or of a base of it; no names stand for every error."""
    return not names or not names.isdisjoint(lineage(type(error)))


def caught_names(written: tuple[str, ...]) -> tuple[str, ...]:
    """The names that errors have, for names that classes had in the past."""
    return tuple(RENAMED.get(name, name) for name in written)


_KNOWN = sorted(
    {
        name
        for module in (builtins, errors)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BaseException)
    }
    | {*RENAMED}
    # Which most programs have.
    | {"NetworkError", "RateLimitError"}
)


def error_meant(name: str) -> str:
    """The known error that a name was probably meant to be. Programs have errors of their own, with any name."""
    if name in _KNOWN or "." in name:
        return ""
    likely = [one for one in _KNOWN if abs(len(one) - len(name)) < 2]
    return next(iter(get_close_matches(name, likely, n=1, cutoff=0.85)), "")


RAISABLE: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    # Those mean something to Python itself, or need more than a message.
    and not issubclass(kind, StopIteration | StopAsyncIteration | ExceptionGroup | UnicodeError | Warning)
    and name == kind.__name__
}
RAISABLE |= {"UnicodeError": UnicodeError, "Permanent": Permanent, "redrive.Permanent": Permanent}
"""What `raise` can name."""
