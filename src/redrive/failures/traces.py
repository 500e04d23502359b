"""Tracebacks for the log: as Python prints them, but without secrets and truncated."""

import traceback
from collections.abc import Iterator

from redrive.failures.matching import qualified_name
from redrive.failures.redaction import redact

_MOST_ERRORS = 10
_MOST_FRAMES = 50
_LONGEST_LINE = 300
_THEN = "\n\nwhich led to:\n\n"


def trace_of(error: BaseException) -> str:
    """Return the error's traceback and text, preceded by those of its causes."""
    return _THEN.join(reversed([_formatted(one) for one in _with_causes(error)]))


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _MOST_ERRORS:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        cause = one.__cause__
        if cause is None and not one.__suppress_context__:
            cause = one.__context__
        if cause is not None:
            waiting.append(cause)
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)


def _formatted(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__, -_MOST_FRAMES))
    # Source lines may contain secrets too.
    lines = [redact(line, _LONGEST_LINE) for line in frames.splitlines()]
    name = qualified_name(type(error)).removeprefix("builtins.")
    try:
        text = redact(str(error))
    except Exception:  # noqa: BLE001 - an error that cannot print itself still happened
        text = "<its text cannot be read>"
    return "\n".join(["Traceback (most recent call last):", *lines, f"{name}: {text}" if text else name])
