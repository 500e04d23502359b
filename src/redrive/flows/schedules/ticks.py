"""When a schedule is due: its ticks, in order, and by how much each is delayed."""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice, pairwise

import msgspec

from redrive.flows.schedules.cron import cron_after

TICKS_LOOKED_AT = 200
"""How many ticks are looked at to find the shortest time between two of them."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of cron, every and at. Times are epoch seconds."""

    cron: str | None = None
    timezone: str = "UTC"
    every: float | None = None
    """Seconds from one tick to the next."""
    at: float | None = None
    """The only tick."""


def tick_after(timing: Timing, anchor: float, after: float) -> float | None:
    """Return the first tick after that time; None when there is none.

    anchor: the time that the ticks of an interval are counted from, so that they do not drift.
    """
    if timing.cron is not None:
        return cron_after(timing.cron, timing.timezone, after)
    if timing.every is not None:
        number = max(1, int((after - anchor) // timing.every))
        while (tick := round(anchor + number * timing.every, 3)) <= after:
            number += 1
        return tick
    return timing.at if timing.at is not None and timing.at > after else None


def ticks_after(timing: Timing, anchor: float, after: float) -> Iterator[float]:
    """The ticks after that time, in order."""
    while (tick := tick_after(timing, anchor, after)) is not None:
        yield tick
        after = tick


def shortest_interval(timing: Timing, after: float) -> float | None:
    """Return the shortest time between two of the next ticks; None when there is only one."""
    if timing.every is not None:
        return timing.every
    ticks = list(islice(ticks_after(timing, after, after), TICKS_LOOKED_AT))
    return min((later - tick for tick, later in pairwise(ticks)), default=None)


def due_at(name: str, tick: float, jitter: float) -> float:
    """Return when that tick of that schedule is due: up to `jitter` seconds later, by the same time for everyone."""
    if not jitter:
        return tick
    drawn = int.from_bytes(blake2b(f"{name}\0{tick!r}".encode(), digest_size=6).digest()) / 2**48
    return round(tick + drawn * jitter, 3)
