"""Calls at a time of day: retries that come due, timers, flows that wake. One alarm of the clock serves them all."""

import heapq
import itertools
import math
from collections.abc import Callable

from redrive.determinism.clock import Clock

# So many that were taken back may lie among the others before they are cleared away.
_FEW = 100


class Alarm:
    """A call that was asked for; `call` is None once it was made or taken back."""

    __slots__ = ("call", "number", "when")

    def __init__(self, when: float, number: int, call: Callable[[], None]) -> None:
        self.when = when
        self.number = number
        self.call: Callable[[], None] | None = call

    def __lt__(self, other: "Alarm") -> bool:
        return (self.when, self.number) < (other.when, other.number)


class Alarms:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[Alarm] = []
        self._taken_back = 0
        self._numbers = itertools.count()
        self._armed_for = math.inf
        self._disarm: Callable[[], None] | None = None

    def at(self, when: float, call: Callable[[], None]) -> Alarm:
        """Call back once the wall clock has reached `when` (epoch seconds)."""
        alarm = Alarm(when, next(self._numbers), call)
        heapq.heappush(self._waiting, alarm)
        if when < self._armed_for:
            self._arm()
        return alarm

    def take_back(self, alarm: Alarm) -> None:
        if alarm.call is None:
            return
        alarm.call = None
        self._taken_back += 1
        if self._taken_back > _FEW and self._taken_back * 2 > len(self._waiting):
            self._waiting = [one for one in self._waiting if one.call is not None]
            heapq.heapify(self._waiting)
            self._taken_back = 0
        if alarm.when <= self._armed_for:
            self._arm()

    def close(self) -> None:
        self._waiting.clear()
        self._arm()

    def _arm(self) -> None:
        """Have the clock ring for the first of them."""
        waiting = self._waiting
        while waiting and waiting[0].call is None:
            heapq.heappop(waiting)
            self._taken_back = max(0, self._taken_back - 1)
        if self._disarm is not None:
            self._disarm()
            self._disarm = None
        self._armed_for = waiting[0].when if waiting else math.inf
        if waiting:
            # The clock may be set; what counts is the time of day when it rings.
            left = max(0.0, self._armed_for - self._clock.wall())
            self._disarm = self._clock.alarm(self._clock.monotonic() + left, self._ring)

    def _ring(self) -> None:
        self._disarm = None
        # While the calls are made no alarm is set; that for what is left comes at the end.
        self._armed_for = -math.inf
        now = self._clock.wall()
        waiting = self._waiting
        due = []
        while waiting and waiting[0].when <= now:
            due.append(heapq.heappop(waiting))
        try:
            for alarm in due:
                call, alarm.call = alarm.call, None
                if call is not None:
                    call()
        finally:
            self._arm()
