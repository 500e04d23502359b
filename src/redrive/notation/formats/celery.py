"""The retry options of a Celery task, as a mapping or as the decorator's text.

Defaults: max_retries 3 (retries after the first attempt; None is no limit), default_retry_delay 180 s, no backoff;
with retry_backoff: retry_backoff_max 600 s and full jitter. Only what autoretry_for names is retried.
"""

from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import NOTHING, Match
from redrive.notation.failure_names import dotted_names, read_class_names
from redrive.notation.fields import Fields
from redrive.notation.place import Place
from redrive.notation.reading import NamedWarning, Reading
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import FULL_JITTER, NO_JITTER

NAME = "celery"
KEYS = (
    "autoretry_for",
    "dont_autoretry_for",
    "max_retries",
    "retry_kwargs",
    "default_retry_delay",
    "retry_backoff",
    "retry_backoff_max",
    "retry_jitter",
)
OTHER_OPTIONS = (
    *("acks_late", "acks_on_failure_or_timeout", "base", "bind", "expires", "ignore_result", "name", "priority"),
    *("queue", "rate_limit", "reject_on_worker_lost", "serializer", "shared", "soft_time_limit"),
    *("store_errors_even_if_ignored", "throws", "time_limit", "track_started", "trail", "typing"),
)
"""Options of a task that have nothing to do with retries."""
SPELLING = {
    "attempts": "max_retries",
    "backoff": "retry_backoff",
    "jitter": "retry_jitter",
    "max_wait": "retry_backoff_max",
    "retry_on": "autoretry_for",
    "never_on": "dont_autoretry_for",
}
CALLS = ("app.task", "celery.task", "shared_task", "celery.shared_task")

_ERRORS = "exception classes such as OSError, as a tuple or a list"
_RETRY_KWARGS = ("max_retries", "countdown")
_UNLIMITED: Mapping[str, None] = {"none": None}


def read(data: Any, place: Place) -> Reading:
    """Read the options. N retries are N + 1 attempts; retry_backoff waits retry_backoff·2^n whole seconds."""
    fields = Fields(_spelled_out(data), place, KEYS, internal=OTHER_OPTIONS)
    retry_on = _classes(fields, "autoretry_for")
    never_on = _classes(fields, "dont_autoretry_for")
    given = Fields(fields.data.get("retry_kwargs", {}), place.at("retry_kwargs"), _RETRY_KWARGS)
    warnings: list[NamedWarning] = dotted_names(retry_on, fields, "autoretry_for")
    warnings += dotted_names(never_on, fields, "dont_autoretry_for")
    limit = given if "max_retries" in given else fields
    retries = limit.whole("max_retries", 3, least=0, special=_UNLIMITED)
    backoff, cap = _waits(fields, given)
    jitter = NO_JITTER
    if cap is not None and fields.flag("retry_jitter", True):
        jitter = FULL_JITTER
        text = "Celery draws whole seconds; here any wait in the same range may be drawn"
        warnings.append(fields.warning("whole-seconds", "retry_jitter", text))
    policy = fields.policy(
        SPELLING,
        attempts=1 if not retry_on else None if retries is None else retries + 1,
        backoff=backoff,
        jitter=jitter,
        max_wait=cap,
        deadline=None,
        retry_on=retry_on,
        never_on=never_on,
    )
    if not retry_on:
        text = "nothing is retried by Celery itself: autoretry_for names no exception"
        warnings.append(fields.warning("nothing-retried", "autoretry_for", text))
    elif retries is not None:
        key = "retry_kwargs" if limit is given else "max_retries"
        text = f"max_retries counts retries after the first attempt: {retries} retries are {retries + 1} attempts"
        warnings.append(fields.warning("retries-counted", key, text))
    warnings += _unused(fields, cap)
    warnings += fields.zero_wait("default_retry_delay", backoff.base, policy.floor, policy.attempts != 1)
    return fields.reading(NAME, policy, SPELLING, warnings)


def _waits(fields: Fields, given: Fields) -> tuple[Backoff, float | None]:
    """Return the backoff, and the cap of an exponential one."""
    factor = fields.data.get("retry_backoff", False)
    if factor is True or (isinstance(factor, int | float) and factor):
        # Celery rounds it down to whole seconds, but not below one.
        base = float(int(max(1.0, 1.0 if factor is True else fields.number("retry_backoff", 1.0, least=0, most=1e8))))
        return Backoff("exponential", base), float(fields.whole("retry_backoff_max", 600, least=1, most=10**8))
    if factor not in (False, 0, None):
        raise fields.refuse("retry_backoff", "True, False or a number of seconds")
    delay = given.duration("countdown", fields.duration("default_retry_delay", 180.0))
    return Backoff("constant", delay), None


def _unused(fields: Fields, cap: float | None) -> list[NamedWarning]:
    """Warn about settings that Celery ignores beside the others."""
    unused = ("retry_backoff_max", "retry_jitter") if cap is None else ("default_retry_delay",)
    other = "without retry_backoff" if cap is None else "with retry_backoff"
    return [
        fields.warning("ignored-setting", key, f"Celery ignores {key} {other}, and so does the policy")
        for key in unused
        if key in fields
    ]


def _classes(fields: Fields, key: str) -> Match:
    return NOTHING if key not in fields else read_class_names(fields.data[key], fields.place.at(key), _ERRORS)


def _spelled_out(data: Any) -> Any:
    """Replace None, which is "no limit" for max_retries, by the text that the field readers accept."""
    if not isinstance(data, Mapping):
        return data
    plain = {key: value for key, value in data.items() if value is not None or key in ("max_retries", "retry_jitter")}
    if "retry_jitter" in plain and plain["retry_jitter"] is None:
        plain["retry_jitter"] = False
    if "max_retries" in plain and plain["max_retries"] is None:
        plain["max_retries"] = "none"
    kwargs = plain.get("retry_kwargs")
    if isinstance(kwargs, Mapping):
        # None leaves it to the task's own setting.
        plain["retry_kwargs"] = {key: value for key, value in kwargs.items() if value is not None}
    return plain
