"""Call back at wall-clock times: flows that wake, retries that come due. One alarm of the clock serves all timers."""

import heapq
import itertools
import math
from collections.abc import Callable

from redrive.determinism.clock import Clock

# Cancelled timers are removed from the heap once they outnumber the others, and are more than these.
_FEW = 100


class Timer:
    """A scheduled callback; `callback` is None once it was called or cancelled."""

    __slots__ = ("callback", "number", "when")

    def __init__(self, when: float, number: int, callback: Callable[[], None]) -> None:
        self.when = when
        self.number = number
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "Timer") -> bool:
        return (self.when, self.number) < (other.when, other.number)


class TimerQueue:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: list[Timer] = []
        self._cancelled = 0
        self._numbers = itertools.count()
        self._armed_for = math.inf
        self._disarm: Callable[[], None] | None = None

    def schedule(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back once the wall clock has reached `when` (epoch seconds)."""
        timer = Timer(when, next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        if when < self._armed_for:
            self._arm()
        return timer

    def cancel(self, timer: Timer) -> None:
        if timer.callback is None:
            return
        timer.callback = None
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [one for one in self._timers if one.callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0
        if timer.when <= self._armed_for:
            self._arm()

    def close(self) -> None:
        self._timers.clear()
        self._arm()

    def _arm(self) -> None:
        """Set the clock's alarm for the first timer."""
        timers = self._timers
        while timers and timers[0].callback is None:
            heapq.heappop(timers)
            self._cancelled = max(0, self._cancelled - 1)
        if self._disarm is not None:
            self._disarm()
            self._disarm = None
        self._armed_for = timers[0].when if timers else math.inf
        if timers:
            # Someone may set the clock; what counts is the wall-clock time when the alarm goes off.
            left = max(0.0, self._armed_for - self._clock.wall())
            self._disarm = self._clock.alarm(self._clock.monotonic() + left, self._fire)

    def _fire(self) -> None:
        self._disarm = None
        # No alarm is set during the callbacks; the one for the remaining timers is set at the end.
        self._armed_for = -math.inf
        now = self._clock.wall()
        timers = self._timers
        due = []
        while timers and timers[0].when <= now:
            due.append(heapq.heappop(timers))
        try:
            for timer in due:
                callback, timer.callback = timer.callback, None
                if callback is None:
                    self._cancelled = max(0, self._cancelled - 1)
                else:
                    callback()
        finally:
            self._arm()


class Alarm:
    """One timer of a queue that can be set again: setting it replaces the one before."""

    __slots__ = ("_name", "_on_wake", "_queue", "_timer", "when")

    def __init__(self, queue: TimerQueue, name: str, on_wake: Callable[[str], None]) -> None:
        """on_wake: called with the name when it goes off; shared by all alarms of a worker."""
        self._queue = queue
        self._name = name
        self._on_wake = on_wake
        self._timer: Timer | None = None
        self.when = math.inf
        """When it goes off; infinity while it is not set."""

    def set(self, when: float) -> None:
        self.cancel()
        self.when = when
        self._timer = self._queue.schedule(when, self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._queue.cancel(self._timer)
            self._timer = None
        self.when = math.inf

    def ring(self) -> None:
        """Go off now."""
        self.cancel()
        self._on_wake(self._name)

    def _fire(self) -> None:
        self._timer = None
        self.when = math.inf
        self._on_wake(self._name)
