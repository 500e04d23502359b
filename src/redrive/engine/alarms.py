"""Calls at a time of day: retries that come due, timers, flows that wake. One alarm of the clock serves them all."""

import heapq
import itertools
from collections.abc import Callable

from redrive.determinism.clock import Clock


class Alarms:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._armed_for = float("inf")
        self._disarm: Callable[[], None] | None = None

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call back once the wall clock has reached `when` (epoch seconds)."""
        heapq.heappush(self._waiting, (when, next(self._numbers), call))
        if when < self._armed_for:
            self._arm()

    def close(self) -> None:
        self._waiting.clear()
        if self._disarm is not None:
            self._disarm()
            self._disarm = None

    def _arm(self) -> None:
        if self._disarm is not None:
            self._disarm()
        when = self._waiting[0][0]
        self._armed_for = when
        # The clock may be set; what counts is the time of day when it rings.
        self._disarm = self._clock.alarm(self._clock.monotonic() + max(0.0, when - self._clock.wall()), self._ring)

    def _ring(self) -> None:
        self._disarm = None
        self._armed_for = float("inf")
        now = self._clock.wall()
        waiting = self._waiting
        due = []
        while waiting and waiting[0][0] <= now:
            due.append(heapq.heappop(waiting)[2])
        for call in due:
            call()
        if waiting and waiting[0][0] < self._armed_for:
            self._arm()
