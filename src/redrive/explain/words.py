"""The words of `explain`: times, calls and decisions as people read them, bounded and without secrets."""

from datetime import UTC, datetime

import msgspec

from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret
from redrive.notation.durations import write_duration
from redrive.policies.decision import Because, Decision, RetryAt

LONGEST_CALL = 300
LONGEST_VALUE = 80
LONGEST_RESULT = 300
LONGEST_ERROR = 300

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1.0
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def utc(at: float) -> datetime:
    return datetime.fromtimestamp(min(at, _LATEST), UTC)


def span(seconds: float) -> str:
    """A duration, as exact as anyone needs: 4ms, 1.25s, 2m5s, 3h20m, 2d4h."""
    if abs(seconds) < _MINUTE:
        size = 0.001
    elif abs(seconds) < _HOUR:
        size = 1.0
    else:
        size = _MINUTE if abs(seconds) < _DAY else _HOUR
    rounded = round(round(abs(seconds) / size) * size, 3)
    return ("-" if seconds < 0 and rounded else "") + write_duration(rounded)


def call(arguments: str) -> str:
    """The arguments of a call, from a JSON object: user="u1", password=***."""
    try:
        fields = _FIELDS.decode(arguments)
    except msgspec.MsgspecError:
        return redact(arguments, LONGEST_CALL)
    shown: list[str] = []
    room = LONGEST_CALL
    for name, raw in fields.items():
        value = "***" if names_a_secret(name) else summary(bytes(raw).decode(), LONGEST_VALUE)
        part = f"{redact(name, LONGEST_VALUE)}={value}"
        room -= len(part)
        if room < 0:
            shown.append(f"… {len(fields) - len(shown)} more")
            break
        shown.append(part)
    return ", ".join(shown)


def summary(value: str, longest: int = LONGEST_RESULT) -> str:
    return redact(value, longest)


def error_line(error_type: str, message: str) -> str:
    name = error_type.removeprefix("builtins.")
    if name.startswith("redrive."):
        name = name.rpartition(".")[2]
    return redact(f"{name}: {message}" if message else name, LONGEST_ERROR)


def attempt_of(number: int, counted: int, allowed: int | None) -> str:
    """ "2 of 3"; after a redrive the attempts count on, but the allowance is fresh."""
    if allowed is None:
        return str(number)
    return f"{number} of {allowed}" if number == counted else f"{number} ({counted} of {allowed} since the redrive)"


def why(decision: Decision) -> str:
    """The rule that matched, the limits, and how the wait came about."""
    because = decision.because
    parts = _who_answered(because)
    if isinstance(decision, RetryAt):
        if because.retries is not None:
            parts.append(f"retry {because.retry_number + 1} of {because.retries} that it grants")
        parts.append(_wait(because))
    else:
        parts.insert(0, because.detail)
        if because.retry_after is not None and decision.kind != "retry_after":
            parts.append(f"Retry-After asked for {span(because.retry_after)}")
    if because.retry_after_note:
        parts.append(f"Retry-After: {because.retry_after_note}")
    if because.deadline_left is not None and (isinstance(decision, RetryAt) or decision.kind != "deadline"):
        left = because.deadline_left
        parts.append(f"{span(left)} left until the deadline" if left > 0 else "the deadline has passed")
    if because.circuit != "none":
        parts.append(f"circuit {because.circuit}")
    if because.budget_left is not None:
        parts.append(f"{because.budget_left:g} retries left in the budget")
    return redact("; ".join(part for part in parts if part), 2 * LONGEST_ERROR)


def _who_answered(because: Because) -> list[str]:
    if because.rule == "lost":
        return ["a lost worker is not the work's failure"]
    if because.rule in ("none", "never_on"):
        return []
    return [f"{because.rule} matches {because.matched}" if because.matched else f"{because.rule} answers"]


def _wait(because: Because) -> str:
    if because.retry_after is not None and because.retry_after > 0:
        lifted = f", lifted to the floor of {span(because.wait)}" if because.lifted_to_floor else ""
        return f"Retry-After asked for {span(because.retry_after)}{lifted}"
    parts = [] if because.raw is None else [f"backoff {span(because.raw)}"]
    if because.raw is not None and because.cap is not None and because.raw > because.cap:
        parts.append(f"capped at {span(because.cap)}")
    low, high = because.low, because.high
    if because.lifted_to_floor and low is not None:
        parts.append(f"lifted to the floor of {span(low)}")
    if low is not None and high is not None and high > low:
        parts.append(f"{because.jitter} jitter drew {span(because.wait)} from {span(low)} to {span(high)}")
    return ", ".join(parts)
