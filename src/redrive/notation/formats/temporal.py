"""Temporal's RetryPolicy, as JSON: camelCase or snake_case keys, durations such as "1s" or "1.500s".

Defaults: initialInterval 1s, backoffCoefficient 2.0, maximumInterval 100 times the initial one, maximumAttempts 0,
which is no limit. Every failure is retried that is not named in nonRetryableErrorTypes.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.failures.matching import ANYTHING, NOTHING
from redrive.notation.failure_names import read_class_names
from redrive.notation.fields import Fields
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.notation.wait_text import LARGEST_FACTOR, LEAST_FACTOR
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.jitter import NO_JITTER

NAME = "temporal"
PYTHON = "temporal_python"
"""The dialect with the names that Python code uses."""
CAMEL_KEYS = ("initialInterval", "backoffCoefficient", "maximumInterval", "maximumAttempts", "nonRetryableErrorTypes")
SNAKE_KEYS = tuple(re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", key) for key in CAMEL_KEYS)
KEYS = (*CAMEL_KEYS, *SNAKE_KEYS)
SPELLING = {
    "attempts": "maximumAttempts",
    "backoff": "initialInterval",
    "max_wait": "maximumInterval",
    "never_on": "nonRetryableErrorTypes",
}
CALLS = ("temporalio.common.RetryPolicy", "common.RetryPolicy", "RetryPolicy")
POSITIONAL = {"RetryPolicy": SNAKE_KEYS}

_DEFAULT_CAP = 100
_NO_LIMIT: Mapping[int, None] = {0: None}


def read(data: Any, place: Place) -> Reading:
    """Read a RetryPolicy. `maximumAttempts` includes the first attempt; 0 is no limit."""
    snake = isinstance(data, Mapping) and any(key in SNAKE_KEYS for key in data)
    names: dict[str, str] = dict(zip(CAMEL_KEYS, SNAKE_KEYS if snake else CAMEL_KEYS, strict=True))
    fields = Fields(_without_nulls(data), place, tuple(names.values()))
    initial = fields.duration(names["initialInterval"], 1.0)
    cap_key = names["maximumInterval"]
    cap = fields.duration(cap_key, min(initial * _DEFAULT_CAP, LONGEST_WAIT) or LONGEST_WAIT, zero=False)
    if cap < initial:
        raise fields.refuse(cap_key, f"at least {names['initialInterval']}, which is {initial:g}s")
    never_key = names["nonRetryableErrorTypes"]
    never_on = NOTHING
    if never_key in fields:
        never_on = read_class_names(fields.data[never_key], fields.place.at(never_key), "a list of error names")
    spelling = {field: names[key] for field, key in SPELLING.items()}
    policy = fields.policy(
        spelling,
        attempts=fields.whole(names["maximumAttempts"], None, least=1, special=_NO_LIMIT),
        backoff=Backoff(
            "exponential",
            initial,
            fields.number(names["backoffCoefficient"], 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR),
        ),
        jitter=NO_JITTER,
        max_wait=cap,
        deadline=None,
        retry_on=ANYTHING,
        never_on=never_on,
    )
    warnings = fields.zero_wait(names["initialInterval"], initial, policy.floor, policy.attempts != 1)
    reading = fields.reading(NAME, policy, spelling, warnings)
    return msgspec.structs.replace(reading, dialect=PYTHON) if snake else reading


def _without_nulls(data: Any) -> Any:
    """Leave out None, which stands for the default."""
    return {key: one for key, one in data.items() if one is not None} if isinstance(data, Mapping) else data
