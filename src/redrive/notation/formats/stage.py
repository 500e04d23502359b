"""The arguments of a stage's retry interceptor: as a call, as the mapping `retry_config`, or as Python values.

Defaults: max_attempts 3, base_delay_ms 1000, max_delay_ms 30000, backoff_strategy exponential, jitter_strategy full,
retryable_errors (TimeoutError, ConnectionError, OSError). There is no deadline.
"""

from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

from redrive.failures.matching import Match
from redrive.notation.durations import cap_in_milliseconds, milliseconds
from redrive.notation.failure_names import with_current_names
from redrive.notation.fields import Fields
from redrive.notation.meaning import Meaning
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.notation.wait_text import BACKOFF_KINDS, PLAIN_JITTER
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import FULL_JITTER

NAME = "stage"
KEYS = (
    "max_attempts",
    "base_delay_ms",
    "max_delay_ms",
    "backoff_strategy",
    "jitter_strategy",
    "retryable_errors",
)
SPELLING = {
    "attempts": "max_attempts",
    "backoff": "base_delay_ms",
    "max_wait": "max_delay_ms",
    "jitter": "jitter_strategy",
    "retry_on": "retryable_errors",
}
CALL = "RetryInterceptor"
DEFAULT_ERRORS = Match(names=("TimeoutError", "ConnectionError", "OSError"))


def read(data: Any, place: Place) -> Reading:
    """Read the arguments. `retryable_errors` are names in text, and may be classes when they come from Python."""
    fields = Fields(_without_enum_names(data), place, KEYS)
    base = fields.milliseconds("base_delay_ms", 1000)
    retry_on = with_current_names(fields.failures("retryable_errors", DEFAULT_ERRORS))
    policy = fields.policy(
        SPELLING,
        attempts=fields.whole("max_attempts", 3, least=1, zero_rule="RD006"),
        backoff=Backoff(fields.choice("backoff_strategy", "exponential", BACKOFF_KINDS), base),
        jitter=fields.choice("jitter_strategy", FULL_JITTER, PLAIN_JITTER),
        max_wait=fields.milliseconds("max_delay_ms", 30_000, least=1),
        deadline=None,
        retry_on=retry_on,
    )
    warnings = fields.zero_wait("base_delay_ms", base, policy.floor, policy.attempts != 1)
    return fields.reading(NAME, policy, SPELLING, warnings)


def _without_enum_names(data: Any) -> Any:
    """Replace enum members in pasted code, such as `BackoffStrategy.LINEAR`, by their values, such as "linear"."""
    if not isinstance(data, Mapping):
        return data
    enums = {"backoff_strategy": "BackoffStrategy.", "jitter_strategy": "JitterStrategy."}
    return {
        key: value.rpartition(".")[2].lower()
        if isinstance(value, str) and key in enums and enums[key] in value
        else value
        for key, value in data.items()
    }


def as_arguments(meaning: Meaning) -> dict[str, Any]:
    """Return the closest arguments; the caller checks what they lost."""
    # No limit is written as the largest number, so that the caller notices the difference.
    arguments: dict[str, Any] = {"max_attempts": 2_147_483_647 if meaning.attempts is None else meaning.attempts}
    if meaning.answers:
        answer = meaning.answers[0]
        arguments |= {
            "base_delay_ms": milliseconds(answer.backoff.base),
            "max_delay_ms": cap_in_milliseconds(answer.max_wait),
            "backoff_strategy": answer.backoff.kind,
            # There is neither additive nor proportional jitter here; equal jitter is the closest.
            "jitter_strategy": answer.jitter.kind if answer.jitter.kind in PLAIN_JITTER else "equal",
            "retryable_errors": _class_names(answer.match),
        }
    return arguments


def write(meaning: Meaning) -> str:
    """Write the arguments as a call that can be pasted into code."""
    arguments = as_arguments(meaning)
    lines = []
    for key, value in arguments.items():
        if isinstance(value, list):
            names = [_as_python(name) for name in value]
            text = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        else:
            text = f'"{value}"' if isinstance(value, str) else str(value)
        lines.append(f"    {key}={text},\n")
    return f"{CALL}(\n{''.join(lines)})\n"


def _class_names(match: Match) -> list[str]:
    if "any" in match.categories:
        return ["Exception"]
    return list(match.names or DEFAULT_ERRORS.names)


def _as_python(name: str) -> str:
    """Return a class name as code; as a string when it is not an expression (`module.<locals>.Busy`)."""
    is_expression = all(part.isidentifier() and not iskeyword(part) for part in name.split("."))
    return name if is_expression else f'"{name}"'
