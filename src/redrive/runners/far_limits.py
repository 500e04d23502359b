"""Cut attempts whose time limit is far away, without a timer for each: nearly all of them end long before."""

import asyncio
from collections.abc import Callable

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.runners.attempt import Attempt

FAR = 3600.0
"""Time limits of at least this many seconds are kept here."""
SWEEP = 60.0
"""Seconds between looks at them; nothing that is added in between ends before the next look."""


class FarLimits:
    """Calls `cut` with each attempt that is still here when its time is over."""

    def __init__(self, cut: Callable[[Attempt], None]) -> None:
        self._cut = cut
        self._ends: dict[Attempt, float] = {}
        self._sweeps = False

    def add(self, attempt: Attempt, seconds: float) -> None:
        self._ends[attempt] = SYSTEM_CLOCK.monotonic() + seconds
        if not self._sweeps:
            self._sweeps = True
            asyncio.get_running_loop().call_later(SWEEP, self._sweep)

    def discard(self, attempt: Attempt) -> None:
        self._ends.pop(attempt, None)

    def _sweep(self) -> None:
        now = SYSTEM_CLOCK.monotonic()
        for attempt in [one for one, end in self._ends.items() if end <= now]:
            del self._ends[attempt]
            self._cut(attempt)
        self._sweeps = bool(self._ends)
        if self._sweeps:
            left = min(self._ends.values()) - now
            asyncio.get_running_loop().call_later(min(left, SWEEP), self._sweep)
