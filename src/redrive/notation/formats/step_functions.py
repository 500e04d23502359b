"""The `Retry` array of a Step Functions state, as JSON: each retrier is a rule with its own counter.

Defaults: IntervalSeconds 1, MaxAttempts 3 (retries, so 0 means never), BackoffRate 2.0, no MaxDelaySeconds,
JitterStrategy NONE. Errors that no retrier names are not retried.
"""

from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.failures.matching import ANYTHING, NOTHING, Match
from redrive.notation.failure_names import with_current_names
from redrive.notation.fields import MOST_RULES, NOT_ALLOWED, Fields, positions_of
from redrive.notation.place import Place
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.wait_text import LARGEST_FACTOR
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import FULL_JITTER, NO_JITTER, Jitter
from redrive.policies.policy import Policy, Rule

NAME = "step_functions"
KEYS = ("ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy", "Comment")
SPELLING = {
    "rules": "Retry",
    "jitter": "JitterStrategy",
    "backoff": "IntervalSeconds",
    "max_wait": "MaxDelaySeconds",
    "attempts": "MaxAttempts",
}

_LONGEST_INTERVAL = 99_999_999
_LONGEST_DELAY = 31_622_400
_ALL = "States.ALL"
_TASK_FAILED = "States.TaskFailed"
_TIMEOUTS = ("States.Timeout", "States.HeartbeatTimeout")
_JITTER: Mapping[str, Jitter] = {"FULL": FULL_JITTER, "NONE": NO_JITTER}


def read(data: Any, place: Place) -> Reading:
    """Read a list of retriers."""
    if not isinstance(data, list | tuple) or not 0 < len(data) <= MOST_RULES:
        raise place.refuse(data, NOT_ALLOWED, f"a list of 1 to {MOST_RULES} retriers with the keys {', '.join(KEYS)}")
    warnings: list[NamedWarning] = []
    rules = tuple(_read_retrier(one, place.at(i), i == len(data) - 1, warnings) for i, one in enumerate(data))
    policy = Policy(
        attempts=None,
        backoff=Backoff("exponential", 1.0),
        jitter=NO_JITTER,
        max_wait=None,
        deadline=None,
        retry_on=NOTHING,
        rules=rules,
    )
    written = {f"rules[{index}]": place.at(index).key for index in range(len(rules))}
    if len(rules) == 1:
        written |= {field: place.at(0, SPELLING[field]).key for field in ("jitter", "backoff", "max_wait", "attempts")}
    return Reading(
        policy=policy,
        notation=NAME,
        warnings=tuple(warnings),
        written=written,
        positions=positions_of(place, [(i, *key) for i, one in enumerate(data) for key in [(), *((k,) for k in one)]]),
        source=place.source,
    )


def _read_retrier(data: Any, place: Place, last: bool, warnings: list[NamedWarning]) -> Rule:
    fields = Fields(data, place, KEYS)
    fields.require("ErrorEquals", "a list of error names")
    delay = fields.whole("MaxDelaySeconds", None, least=1, most=_LONGEST_DELAY)
    return Rule(
        match=_read_errors(fields, last, warnings),
        retries=fields.whole("MaxAttempts", 3, least=0, most=_LONGEST_INTERVAL),
        backoff=Backoff(
            "exponential",
            float(fields.whole("IntervalSeconds", 1, least=1, most=_LONGEST_INTERVAL)),
            fields.number("BackoffRate", 2.0, least=1, most=LARGEST_FACTOR),
        ),
        jitter=fields.choice("JitterStrategy", NO_JITTER, _JITTER),
        max_wait=None if delay is None else float(delay),
    )


def _read_errors(fields: Fields, last: bool, warnings: list[NamedWarning]) -> Match:
    names = fields.data["ErrorEquals"]
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise fields.refuse("ErrorEquals", "a list of error names, at least one")
    if _ALL in names and (len(names) > 1 or not last):
        raise fields.refuse("ErrorEquals", f"{_ALL} alone, in the last retrier")
    together = NOTHING
    for index, name in enumerate(names):
        together = together | _read_error(name, index, fields, warnings)
    return with_current_names(together)


def _read_error(name: str, index: int, fields: Fields, warnings: list[NamedWarning]) -> Match:
    def warn(id: str, text: str) -> None:  # noqa: A002 - the name of the field it fills
        warnings.append(fields.warning(id, "ErrorEquals", text))

    if name == _ALL:
        return ANYTHING
    if name == _TASK_FAILED:
        warn("task-failed", f"{_TASK_FAILED} excludes timeouts; here it is read as any failure, including timeouts")
        return ANYTHING
    if name in _TIMEOUTS:
        warn("timeout-name", f"{name} is read as TimeoutError, which the work itself may raise too")
        return Match(names=("TimeoutError",))
    if name.startswith("States."):
        warn("service-error", f"{name} is raised by Step Functions itself; nothing here raises it")
    elif "." in name:
        warn("dotted-name", f"{name} is compared with the module and name of the error's class")
    if not all(part.isidentifier() for part in name.split(".")):
        raise _not_a_name(name, fields.place.at("ErrorEquals", index))
    return Match(names=(name,))


def _not_a_name(name: str, place: Place) -> NotationError:
    return place.refuse(name, NOT_ALLOWED, "error names that a Python class can have, such as TimeoutError")
