"""tenacity's settings, as a mapping of expressions or as the decorator's text.

By default tenacity never stops, does not wait and retries every exception. Settings that are functions cannot be read.
"""

from collections.abc import Callable, Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.failures.matching import ANYTHING, NOTHING, Match
from redrive.notation.failure_names import dotted_names, read_class_names
from redrive.notation.fields import LARGEST_COUNT, NOT_ALLOWED, Fields
from redrive.notation.formats.tenacity_arguments import Arguments
from redrive.notation.formats.tenacity_waits import Waits, read_wait
from redrive.notation.place import Place
from redrive.notation.python_calls import parse_expression
from redrive.notation.python_values import Call, Combined, Name, as_plain
from redrive.notation.reading import NamedWarning, Reading

NAME = "tenacity"
HOOKS = ("sleep", "before", "after", "before_sleep", "retry_error_cls", "retry_error_callback", "name", "enabled")
KEYS = ("stop", "wait", "retry", "reraise", *HOOKS)
SPELLING = {
    "attempts": "stop",
    "deadline": "stop",
    "backoff": "wait",
    "jitter": "wait",
    "max_wait": "wait",
    "retry_on": "retry",
    "never_on": "retry",
}
CALLS = ("tenacity.retry", "tenacity.Retrying", "tenacity.AsyncRetrying", "Retrying", "AsyncRetrying")

_STOPS = "stop_after_attempt(n), stop_after_delay(s), stop_before_delay(s), stop_never, and | between them"
_RETRIES = (
    "retry_if_exception_type(...), retry_if_not_exception_type(...), retry_always, retry_never, "
    "and | between exception types"
)
_ERRORS = "exception classes"


class _Limits:
    def __init__(self) -> None:
        self.attempts: int | None = None
        self.deadline: float | None = None


def read(data: Any, place: Place) -> Reading:
    """Read the settings. Expressions are text, or already parsed when they come from a call."""
    fields = Fields(data, place, KEYS)
    limits, waits = _Limits(), Waits()
    warnings: list[NamedWarning] = []
    retry_on, never_on = ANYTHING, NOTHING
    if "stop" in fields:
        _read_stop(_expression(fields, "stop", _STOPS), fields, limits)
    if "wait" in fields:
        waits = read_wait(_expression(fields, "wait", "wait_..."), fields, warnings)
    if "retry" in fields:
        retry_on, never_on = _read_retry(_expression(fields, "retry", _RETRIES), fields)
        warnings += dotted_names(retry_on | never_on, fields, "retry")
    attempts = limits.attempts if retry_on else 1
    policy = fields.policy(
        SPELLING,
        attempts=attempts,
        backoff=waits.backoff,
        jitter=waits.jitter,
        max_wait=waits.cap,
        deadline=limits.deadline,
        retry_on=retry_on,
        never_on=never_on,
    )
    if limits.deadline is not None:
        text = "tenacity checks the time between attempts; the deadline here also cuts a running attempt"
        warnings.append(fields.warning("deadline-cuts", "stop", text))
    warnings += fields.zero_wait("wait", waits.backoff.base, policy.floor, attempts != 1)
    if fields.flag("reraise", False) is False and attempts != 1:
        text = "tenacity wraps the last error in RetryError unless reraise=True; here the error itself is raised"
        warnings.append(fields.warning("error-not-wrapped", "reraise", text))
    warnings += [
        fields.warning("ignored-setting", key, f"{key} is Python code or a name and is ignored")
        for key in HOOKS
        if key in fields
    ]
    return fields.reading(NAME, policy, SPELLING, warnings)


def _expression(fields: Fields, key: str, allowed: str) -> Any:
    value = fields.data[key]
    if isinstance(value, Call | Combined):
        return value
    if not isinstance(value, str):
        raise fields.refuse(key, allowed)
    try:
        return parse_expression(value, fields.place.source)
    except NotationError as error:
        raise fields.refuse(key, allowed, f"{NOT_ALLOWED}: {error.problem}") from None


def _bare(name: str) -> str:
    """Return the name as tenacity documents it, without the module."""
    return name.rpartition(".")[2] if name.startswith("tenacity.") else name


def _read_stop(stop: Any, fields: Fields, limits: _Limits) -> None:
    if isinstance(stop, Combined) and stop.operator == "|":
        for part in stop.parts:
            _read_stop(part, fields, limits)
        return
    name = _bare(stop.name if isinstance(stop, Call) else stop.text if isinstance(stop, Name) else "")
    if name == "stop_never":
        return
    if not isinstance(stop, Call):
        raise fields.refuse("stop", _STOPS)
    if name == "stop_any":
        for part in stop.arguments:
            _read_stop(part, fields, limits)
    elif name == "stop_after_attempt":
        count = Arguments(stop, fields, "stop", ("max_attempt_number",)).whole("max_attempt_number", LARGEST_COUNT)
        limits.attempts = min(limits.attempts or count, count)
    elif name in ("stop_after_delay", "stop_before_delay"):
        seconds = Arguments(stop, fields, "stop", ("max_delay",)).seconds("max_delay", None, zero=False)
        limits.deadline = min(limits.deadline or seconds, seconds)
    else:
        raise fields.refuse("stop", _STOPS, f"{name} cannot be read")


def _read_retry(retry: Any, fields: Fields) -> tuple[Match, Match]:
    """Return the failures that are retried, and those that never are."""
    name = _bare(retry.name if isinstance(retry, Call) else retry.text if isinstance(retry, Name) else "")
    if name == "retry_always":
        return ANYTHING, NOTHING
    if name == "retry_never":
        return NOTHING, NOTHING
    readers: Mapping[str, Callable[[Match], tuple[Match, Match]]] = {
        "retry_if_exception_type": lambda kinds: (kinds, NOTHING),
        "retry_if_not_exception_type": lambda kinds: (ANYTHING, kinds),
    }
    if isinstance(retry, Call) and name in readers:
        return readers[name](_error_classes(retry, fields))
    parts = retry.parts if isinstance(retry, Combined) and retry.operator == "|" else ()
    if isinstance(retry, Call) and name == "retry_any":
        parts = retry.arguments
    if parts and all(isinstance(part, Call) and _bare(part.name) == "retry_if_exception_type" for part in parts):
        together = NOTHING
        for part in parts:
            together = together | _error_classes(part, fields)
        return together, NOTHING
    raise fields.refuse("retry", _RETRIES, f"{name or 'this combination'} cannot be read")


def _error_classes(call: Call, fields: Fields) -> Match:
    given = Arguments(call, fields, "retry", ("exception_types",)).values.get("exception_types", Name("Exception"))
    match = read_class_names(as_plain(given), fields.place.at("retry"), _ERRORS)
    if not match:
        raise fields.refuse("retry", f"{_ERRORS}, at least one")
    return match
