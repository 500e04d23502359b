"""Parses durations as people write them: 500ms, 30s, 2m, 1h, 1d, 1h30m, a number of seconds, a timedelta."""

import math
import re
from datetime import timedelta

ALLOWED_FORMS = "write seconds (30, 1.5), text such as 500ms, 30s, 2m, 1h, 1d or 1h30m, or a timedelta"

_NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
# Kept as text: `re` compiles and caches them on first use, so that importing costs nothing.
_WITH_UNITS = (
    # Largest unit first and each at most once: "30m1h" is more likely a slip than a wish.
    rf"(?:({_NUMBER})\s*d\s*)?(?:({_NUMBER})\s*h\s*)?(?:({_NUMBER})\s*m\s*)?(?:({_NUMBER})\s*s\s*)?(?:({_NUMBER})\s*ms)?"
)
_SECONDS_PER_UNIT = (86_400.0, 3_600.0, 60.0, 1.0)
_LONGEST_TEXT = 64


def seconds_in(value: object) -> float | None:
    """Return the duration in seconds, finite and not negative; None when `value` is not a duration."""
    seconds: float | None = None
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            return None
    elif isinstance(value, str):
        seconds = _parse(value)
    if seconds is None or not (math.isfinite(seconds) and seconds >= 0):
        return None
    # -0.0 is no less than 0, but prints as if it were.
    return seconds or 0.0


def _parse(text: str) -> float | None:
    trimmed = text.strip()
    if not trimmed or len(trimmed) > _LONGEST_TEXT:
        return None
    if re.fullmatch(_NUMBER, trimmed):
        return float(trimmed)
    parts = re.fullmatch(_WITH_UNITS, trimmed)
    if parts is None:
        return None
    *larger, milliseconds = parts.groups(default="0")
    # Divided, not multiplied by 0.001: 9 / 1000 is the number nearest to 0.009, and 9 * 0.001 is not.
    return sum(
        (float(count) * unit for count, unit in zip(larger, _SECONDS_PER_UNIT, strict=True)), float(milliseconds) / 1000
    )
