"""Arguments of the backoff library's decorators, as a mapping or as the decorator's text.

`max_tries` counts all attempts; None is no limit, and so is None for `max_time`. The default jitter is full_jitter.
"""

from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import TRANSIENT, Match
from redrive.notation.failure_names import dotted_names, read_class_names
from redrive.notation.fields import Fields
from redrive.notation.place import Place
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.wait_text import LARGEST_FACTOR, LEAST_FACTOR
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import FULL_JITTER, NO_JITTER, Jitter

NAME = "backoff"
HOOKS = ("on_success", "on_backoff", "on_giveup", "logger", "backoff_log_level", "giveup_log_level")
WAITS = ("base", "factor", "max_value", "interval")
KEYS = ("wait_gen", "exception", "max_tries", "max_time", "jitter", "giveup", "raise_on_giveup", *WAITS, *HOOKS)
SPELLING = {
    "attempts": "max_tries",
    "deadline": "max_time",
    "backoff": "wait_gen",
    "jitter": "jitter",
    "max_wait": "max_value",
    "retry_on": "exception",
}
CALLS = ("backoff.on_exception", "backoff.on_predicate", "on_exception", "on_predicate")
POSITIONAL = {"on_exception": ("wait_gen", "exception"), "on_predicate": ("wait_gen", "predicate")}

_ERRORS = "exception classes such as OSError, one or a list"
_GENERATORS = {"expo": ("base", "factor", "max_value"), "constant": ("interval",)}
_JITTERS = {"full_jitter": FULL_JITTER, "random_jitter": Jitter("additive", 1.0), "none": NO_JITTER}
_NO_LIMIT: Mapping[str, None] = {"none": None}


def read(data: Any, place: Place) -> Reading:
    """Read the arguments. expo waits factor·base^n, at most max_value; then jitter is drawn."""
    fields = Fields(_spelled_out(data), place, KEYS, internal=("predicate",))
    fields.require("wait_gen", "backoff.expo or backoff.constant")
    generator = fields.choice("wait_gen", "", {name: name for name in _GENERATORS})
    for key in WAITS:
        if key in fields and key not in _GENERATORS[generator]:
            raise fields.refuse(key, ", ".join(_GENERATORS[generator]), f"{generator} has no such argument")
    backoff = _backoff(fields, generator)
    jitter = fields.choice("jitter", FULL_JITTER, _JITTERS)
    cap = fields.duration("max_value", None, zero=False, special=_NO_LIMIT)
    retry_on = _retry_on(fields)
    policy = fields.policy(
        SPELLING,
        attempts=fields.whole("max_tries", None, least=1, special=_NO_LIMIT, zero_rule="RD006"),
        backoff=backoff,
        jitter=jitter,
        max_wait=cap,
        deadline=fields.duration("max_time", None, zero=False, special=_NO_LIMIT),
        retry_on=retry_on,
    )
    warnings = dotted_names(retry_on, fields, "exception") if "exception" in fields else []
    if policy.deadline is not None:
        text = (
            "backoff shortens the last wait and makes one more attempt when max_time is over; the deadline here ends "
            "the waits, and also cuts a running attempt"
        )
        warnings.append(fields.warning("deadline-cuts", "max_time", text))
    if jitter.kind == "additive" and cap is not None:
        text = "the cap applies after the random second is added, not before"
        warnings.append(fields.warning("cap-after-jitter", "jitter", text))
    warnings += fields.zero_wait("wait_gen", backoff.base, policy.floor, policy.attempts != 1)
    warnings += _ignored(fields)
    return fields.reading(NAME, policy, SPELLING, warnings)


def _backoff(fields: Fields, generator: str) -> Backoff:
    if generator == "constant":
        return Backoff("constant", fields.duration("interval", 1.0))
    growth = fields.number("base", 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR)
    return Backoff("exponential", fields.duration("factor", 1.0), growth)


def _retry_on(fields: Fields) -> Match:
    if "predicate" in fields or "exception" not in fields:
        # on_predicate rejects results, which redrive counts as transient failures.
        return TRANSIENT
    match = read_class_names(fields.data["exception"], fields.place.at("exception"), _ERRORS)
    if not match:
        raise fields.refuse("exception", _ERRORS)
    return match


def _ignored(fields: Fields) -> list[NamedWarning]:
    warnings = []
    if "giveup" in fields:
        text = "giveup is Python code; write never_on=... with that function in Python"
        warnings.append(fields.warning("ignored-setting", "giveup", text))
    if "predicate" in fields or "exception" not in fields:
        text = "on_predicate retries by the result; write retry_result=... with that function in Python"
        warnings.append(fields.warning("ignored-setting", "predicate", text))
    if fields.flag("raise_on_giveup", True) is False:
        text = "here the last error is always raised; write fallback=redrive.fallback.value(None) to return None"
        warnings.append(fields.warning("error-raised", "raise_on_giveup", text))
    return warnings + [
        fields.warning("ignored-setting", key, f"{key} is Python code or a name and is ignored")
        for key in HOOKS
        if key in fields
    ]


def _spelled_out(data: Any) -> Any:
    """Replace None, which is "no limit" or "no jitter", by text, and names such as backoff.expo by bare ones."""
    if not isinstance(data, Mapping):
        return data
    plain = dict(data)
    for key in ("max_tries", "max_time", "max_value", "jitter"):
        if key in plain and plain[key] is None:
            plain[key] = "none"
    for key in ("wait_gen", "jitter"):
        if isinstance(plain.get(key), str):
            plain[key] = plain[key].rpartition(".")[2]
    return plain
