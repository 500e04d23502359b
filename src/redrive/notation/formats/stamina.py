"""stamina's keyword arguments, as a mapping or as the decorator's text.

Defaults: attempts 10, timeout 45 s, wait_initial 0.1 s, wait_max 5 s, wait_jitter 1 s, wait_exp_base 2. None means no
limit for attempts and timeout. `on` is required.
"""

from collections.abc import Mapping
from typing import Any

from redrive.notation.failure_names import dotted_names, read_class_names
from redrive.notation.fields import Fields
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.notation.wait_text import LARGEST_FACTOR, LEAST_FACTOR
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import NO_JITTER, Jitter

NAME = "stamina"
KEYS = ("on", "attempts", "timeout", "wait_initial", "wait_max", "wait_jitter", "wait_exp_base")
SPELLING = {
    "attempts": "attempts",
    "backoff": "wait_initial",
    "jitter": "wait_jitter",
    "max_wait": "wait_max",
    "deadline": "timeout",
    "retry_on": "on",
}
CALLS = ("stamina.retry", "stamina.retry_context", "retry_context", "stamina.RetryingCaller", "RetryingCaller")

_ERRORS = "exception classes such as httpx.HTTPError, one or a list"


def read(data: Any, place: Place) -> Reading:
    """Read the settings. Waits are drawn from [initial·base^n, that + wait_jitter] and never exceed wait_max."""
    fields = Fields(_without_null_limits(data), place, KEYS)
    fields.require("on", _ERRORS)
    on = fields.data["on"]
    if isinstance(on, str) and "." not in on and on[:1].islower():
        raise fields.refuse("on", _ERRORS, "a predicate function cannot be read")
    initial = fields.duration("wait_initial", 0.1)
    jitter = fields.duration("wait_jitter", 1.0)
    retry_on = read_class_names(on, fields.place.at("on"), _ERRORS)
    if not retry_on:
        raise fields.refuse("on", _ERRORS)
    policy = fields.policy(
        SPELLING,
        attempts=fields.whole("attempts", 10, least=1, special={"none": None}, zero_rule="RD006"),
        backoff=Backoff(
            "exponential", initial, fields.number("wait_exp_base", 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR)
        ),
        jitter=Jitter("additive", jitter) if jitter else NO_JITTER,
        max_wait=fields.duration("wait_max", 5.0, zero=False),
        deadline=fields.duration("timeout", 45.0, zero=False, special={"none": None}),
        retry_on=retry_on,
    )
    warnings = dotted_names(retry_on, fields, "on")
    if policy.deadline is not None:
        text = "stamina checks its timeout between attempts; the deadline here also cuts a running attempt"
        warnings.append(fields.warning("deadline-cuts", "timeout", text))
    warnings += fields.zero_wait("wait_initial", initial, policy.floor, policy.attempts != 1)
    return fields.reading(NAME, policy, SPELLING, warnings)


def _without_null_limits(data: Any) -> Any:
    """Replace None, which is stamina's "no limit", by the text that the field readers accept."""
    if not isinstance(data, Mapping):
        return data
    return {key: "none" if value is None and key in ("attempts", "timeout") else value for key, value in data.items()}
