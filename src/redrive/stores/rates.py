"""Rates such as "100/m": how many flows may begin in a time, evenly spaced, and never more in any window."""

import functools
import math
import re
from typing import NamedTuple

from redrive.errors import DurationError
from redrive.failures.duration import read_duration

RATE_FORMS = 'write how many in which time: "100/m", "5/s", "1000/h" or "10/30s"'
LARGEST_COUNT, LONGEST_WINDOW = 1_000_000, 86_400.0 * 31
TOGETHER = 0.05
"""Seconds of which the beginnings may come at once: workers do not claim more often than that."""

_RATE = re.compile(r"\s*([0-9]{1,9})\s*/\s*(\S{1,64})\s*")


class Rate(NamedTuple):
    """At most `number` in any window of `seconds`."""

    number: int
    seconds: float

    @property
    def at_once(self) -> int:
        """How many may come at the same moment."""
        return min(self.number, 1 + int(TOGETHER * self.number / self.seconds))

    @property
    def interval(self) -> float:
        """Seconds between two: with those that come at once, a window holds no more than `number`."""
        return self.seconds / (self.number - self.at_once + 1)

    def free_at(self, level: float) -> float:
        """When the next one may come. `level` is the time up to which the rate has been used; see `after`."""
        return level - (self.at_once - 1) * self.interval

    def after(self, level: float, now: float) -> float:
        """Return the level after one more at `now`."""
        return max(level, now) + self.interval


@functools.lru_cache(maxsize=1000)
def read_rate(text: str) -> Rate:
    """Read "100/m"; ValueError for anything else."""
    parts = _RATE.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise ValueError(f"{text!r:.40} is not a rate; {RATE_FORMS}")
    unit = parts[2]
    try:
        seconds = read_duration(f"1{unit}" if unit[0].isalpha() else unit)
    except DurationError:
        raise ValueError(f"{text!r:.40} is not a rate; {RATE_FORMS}") from None
    count = int(parts[1])
    if not 1 <= count <= LARGEST_COUNT or not 0.001 <= seconds <= LONGEST_WINDOW:
        raise ValueError(f"{text!r:.40}: use 1 to {LARGEST_COUNT} in a time from 1 ms to 31 days")
    if not math.isfinite(Rate(count, seconds).interval) or count / seconds > LARGEST_COUNT:
        raise ValueError(f"{text!r:.40}: use at most {LARGEST_COUNT} a second")
    return Rate(count, seconds)
