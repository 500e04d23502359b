"""The `retry:` mapping of a step template, as YAML: retryable, max_attempts, backoff, backoff_base_ms, max_backoff_ms.

Defaults: retryable true, max_attempts 3, backoff exponential, backoff_base_ms 1000, max_backoff_ms 30000. There is no
jitter and no deadline; every failure is retried that is not known to be permanent.
"""

from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import TRANSIENT, UNKNOWN
from redrive.notation.durations import cap_in_milliseconds, milliseconds
from redrive.notation.fields import Fields
from redrive.notation.meaning import Meaning
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.policies.backoff import Backoff, BackoffKind
from redrive.policies.jitter import NO_JITTER

NAME = "template"
KEYS = ("retryable", "max_attempts", "backoff", "backoff_base_ms", "max_backoff_ms")
RENAMED = {"retry_limit": ("max_attempts", "RD008")}
SPELLING = {"attempts": "max_attempts", "backoff": "backoff_base_ms", "max_wait": "max_backoff_ms"}

_NO_BACKOFF = "none"
_KINDS: Mapping[str, BackoffKind | None] = {
    "exponential": "exponential",
    "linear": "linear",
    "constant": "constant",
    "fixed": "constant",
    _NO_BACKOFF: None,
}


def read(data: Any, place: Place) -> Reading:
    """Read a `retry:` mapping. `max_attempts` includes the first attempt; `retryable: false` allows only that one."""
    fields = Fields(data, place, KEYS, renamed=RENAMED)
    retryable = fields.flag("retryable", True)
    max_attempts = fields.whole("max_attempts", 3, least=1, zero_rule="RD006")
    kind = fields.choice("backoff", "exponential", _KINDS)
    base = fields.milliseconds("backoff_base_ms", 1000) if kind else 0.0
    policy = fields.policy(
        SPELLING,
        attempts=max_attempts if retryable else 1,
        backoff=Backoff(kind or "constant", base),
        jitter=NO_JITTER,
        max_wait=fields.milliseconds("max_backoff_ms", 30_000, least=1),
        deadline=None,
        retry_on=TRANSIENT | UNKNOWN,
    )
    warnings = fields.zero_wait("backoff_base_ms" if kind else "backoff", base, policy.floor, policy.attempts != 1)
    if not retryable and max_attempts > 1 and "max_attempts" in fields:
        text = f"retryable is false, so max_attempts {max_attempts} is never used: one attempt is made"
        warnings.append(fields.warning("retryable-false", "max_attempts", text))
    if not kind and "backoff_base_ms" in fields:
        text = "backoff is none, so backoff_base_ms is never used"
        warnings.append(fields.warning("unused-base", "backoff_base_ms", text))
    return fields.reading(NAME, policy, SPELLING, warnings)


def write(meaning: Meaning) -> str:
    """Write the closest `retry:` mapping; the caller checks what it lost."""
    lines = ["retry:"]
    if meaning.answers:
        answer = meaning.answers[0]
        # No limit is written as the largest number, so that the caller notices the difference.
        attempts = 2_147_483_647 if meaning.attempts is None else meaning.attempts
        lines += [
            "  retryable: true",
            f"  max_attempts: {attempts}",
            f"  backoff: {answer.backoff.kind}",
            f"  backoff_base_ms: {milliseconds(answer.backoff.base)}",
            f"  max_backoff_ms: {cap_in_milliseconds(answer.max_wait)}",
        ]
    else:
        lines += ["  retryable: false", "  max_attempts: 1"]
    return "\n".join(lines) + "\n"
