"""`work_config` of a step, as JSON: max_retries, backoff, max_backoff, backoff_type.

Defaults: max_retries 3, backoff 1000 ms, max_backoff 60000 ms, backoff_type exponential. There is no jitter and no
deadline; transient failures are retried.
"""

import json
from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import TRANSIENT
from redrive.notation.durations import cap_in_milliseconds, milliseconds
from redrive.notation.fields import Fields
from redrive.notation.meaning import Meaning
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.policies.backoff import Backoff, BackoffKind
from redrive.policies.jitter import NO_JITTER

NAME = "work_config"
KEYS = ("max_retries", "backoff", "max_backoff", "backoff_type")
SPELLING = {"attempts": "max_retries", "backoff": "backoff", "max_wait": "max_backoff"}

_TYPES: Mapping[str, BackoffKind] = {"fixed": "constant", "linear": "linear", "exponential": "exponential"}
_UNLIMITED: Mapping[int, None] = {-1: None}


def read(data: Any, place: Place) -> Reading:
    """Read a `work_config`: N retries are N + 1 attempts, -1 is no limit, durations are whole milliseconds."""
    fields = Fields(data, place, KEYS)
    retries = fields.whole("max_retries", 3, least=0, most=2_147_483_646, special=_UNLIMITED)
    backoff = Backoff(
        fields.choice("backoff_type", "exponential", _TYPES),
        fields.milliseconds("backoff", 1000),
    )
    policy = fields.policy(
        SPELLING,
        attempts=None if retries is None else retries + 1,
        backoff=backoff,
        jitter=NO_JITTER,
        max_wait=fields.milliseconds("max_backoff", 60_000, least=1),
        deadline=None,
        retry_on=TRANSIENT,
    )
    warnings = fields.zero_wait("backoff", backoff.base, policy.floor, retries != 0)
    return fields.reading(NAME, policy, SPELLING, warnings)


def write(meaning: Meaning) -> str:
    """Write the closest `work_config`; the caller checks what it lost."""
    config: dict[str, Any] = {"max_retries": -1 if meaning.attempts is None else meaning.attempts - 1}
    if meaning.answers:
        answer = meaning.answers[0]
        kinds = {kind: word for word, kind in _TYPES.items()}
        config["backoff"] = milliseconds(answer.backoff.base)
        config["max_backoff"] = cap_in_milliseconds(answer.max_wait)
        config["backoff_type"] = kinds[answer.backoff.kind]
    return json.dumps(config, indent=2) + "\n"
