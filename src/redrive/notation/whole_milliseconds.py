"""Seconds as the whole milliseconds that some notations count in."""

import math

from redrive.policies.backoff import LONGEST_WAIT


def milliseconds(seconds: float) -> int:
    """Rounded to the nearest, but never down to no wait at all."""
    nearest = round(seconds * 1000)
    return nearest if nearest or not seconds else math.ceil(seconds * 1000)


def longest_milliseconds(seconds: float | None) -> int:
    """A cap in milliseconds; where there is none, the longest wait a policy can ask for."""
    return max(1, milliseconds(LONGEST_WAIT if seconds is None else seconds))
