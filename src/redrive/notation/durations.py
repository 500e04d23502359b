"""Durations as text: read to seconds, and written so that they read back to exactly the same number."""

import math
from typing import Any

from redrive.errors import DurationError
from redrive.failures.duration import read_duration
from redrive.policies.backoff import LONGEST_WAIT

__all__ = [
    "SHORTEST_DURATION",
    "DurationError",
    "cap_in_milliseconds",
    "milliseconds",
    "read_duration",
    "read_wait",
    "write_duration",
]

SHORTEST_DURATION = 1e-9
"""In seconds. Anything shorter, except zero, has no text that is certain to read back exactly."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def read_wait(value: Any) -> float | None:
    """Return the seconds of a duration that a policy accepts; None when it is not one."""
    try:
        seconds = read_duration(value)
    except ValueError:
        return None
    return seconds if seconds == 0 or SHORTEST_DURATION <= seconds <= LONGEST_WAIT else None


def write_duration(seconds: float) -> str:
    """Return the shortest usual form, such as "500ms", "30s" or "1h30m"; `read_duration` returns exactly `seconds`.

    DurationError when there is no such form, as for some values below a nanosecond.
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


def milliseconds(seconds: float) -> int:
    """Round to whole milliseconds, but never a wait down to zero."""
    nearest = round(seconds * 1000)
    return nearest if nearest or not seconds else math.ceil(seconds * 1000)


def cap_in_milliseconds(seconds: float | None) -> int:
    """A cap in whole milliseconds; None, which is no cap, becomes the longest wait a policy can ask for."""
    return max(1, milliseconds(LONGEST_WAIT if seconds is None else seconds))
