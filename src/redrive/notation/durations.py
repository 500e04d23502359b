"""Durations as people write them: read to seconds, and written so that they read back to the same number."""

from typing import Any

from redrive.errors import DurationError
from redrive.failures.duration import read_duration
from redrive.policies.backoff import LONGEST_WAIT

__all__ = ["SHORTEST_DURATION", "DurationError", "read_duration", "read_wait", "write_duration"]

SHORTEST_DURATION = 1e-9
"""Seconds: what is shorter, but not zero, cannot be meant, and has no text that is sure to read back."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def read_wait(value: Any) -> float | None:
    """The seconds of a duration that a policy may hold; None when it is none, or is too short or too long."""
    try:
        seconds = read_duration(value)
    except ValueError:
        return None
    return seconds if seconds == 0 or SHORTEST_DURATION <= seconds <= LONGEST_WAIT else None


def write_duration(seconds: float) -> str:
    """The shortest usual form, such as "500ms", "30s" or "1h30m"; `read_duration` gives back exactly `seconds`.

    DurationError for what has no such form: nothing under a billionth of a second is sure to have one.
    """
    seconds = read_duration(seconds)
    milliseconds = round(seconds * 1000)
    parts: list[str] = []
    left = milliseconds
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    text = "".join(parts) or "0s"
    if 1000 < milliseconds < 60_000 and milliseconds % 1000:
        text = f"{milliseconds / 1000:g}s"
    if read_duration(text) != seconds:
        text = f"{_without_exponent(seconds)}s"
        if read_duration(text) != seconds:
            raise DurationError(seconds)
    return text


def _without_exponent(number: float) -> str:
    text = repr(number)
    if "e" not in text:
        return text
    digits, _, exponent = text.partition("e")
    whole, _, fraction = digits.partition(".")
    shift = int(exponent)
    if shift < 0:
        return f"0.{'0' * (-shift - 1)}{whole}{fraction}"
    return f"{whole}{fraction.ljust(shift, '0')}" if len(fraction) <= shift else f"{number:.0f}"
