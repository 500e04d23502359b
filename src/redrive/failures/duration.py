"""Reads durations as people write them."""

from redrive.determinism.durations import seconds_in
from redrive.errors import DurationError


def read_duration(value: object) -> float:
    """Return the duration in seconds; DurationError when `value` is not one."""
    seconds = seconds_in(value)
    if seconds is None:
        raise DurationError(value)
    return seconds
