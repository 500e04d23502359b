"""The times at which a flow goes on by itself: retries, timeouts of accepted attempts, and timers of its code."""

import heapq
import math
from typing import Literal

from redrive.flows.driver import Driver
from redrive.worker.flow.flow_log import FlowLog

# Entries that no longer count are removed from the heap once there are this many of them.
_FEW = 100

TimerKind = Literal["retry", "callback", "timer"]
Due = tuple[float, TimerKind, int]
"""When, what, and the number of the item or timer."""


class FlowTimers:
    """Retries and callbacks by item, beside the timers in the history. The first one is found without a scan."""

    __slots__ = ("_driver", "_heap", "_last_timer", "_log", "_most", "callbacks", "retries")

    def __init__(self, log: FlowLog, driver: Driver) -> None:
        self.retries: dict[int, float] = {}
        """Item -> when its next attempt may begin."""
        self.callbacks: dict[int, float] = {}
        """Item -> when its accepted attempt times out unless its outcome is reported."""
        self._heap: list[Due] = []
        """All of them, and some that no longer count."""
        self._most = _FEW
        self._last_timer = 0
        """The newest timer in the heap: timers are numbered in order."""
        self._log = log
        self._driver = driver

    def __bool__(self) -> bool:
        return bool(self.retries or self.callbacks or self._log.history.timers)

    def put_retry(self, item: int, when: float) -> None:
        if self.retries.get(item) != when:
            self.retries[item] = when
            heapq.heappush(self._heap, (when, "retry", item))

    def put_callback(self, item: int, when: float) -> None:
        if self.callbacks.get(item) != when:
            self.callbacks[item] = when
            heapq.heappush(self._heap, (when, "callback", item))

    def drop(self, item: int) -> None:
        self.retries.pop(item, None)
        self.callbacks.pop(item, None)

    def first(self) -> float:
        """When the first of them is due; infinity when there is none."""
        heap = self._with_new_timers()
        while heap and not self._counts(*heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def due(self, at: float, most: int) -> list[Due]:
        """Take out up to `most` that are due, in the order of their times."""
        heap = self._with_new_timers()
        due: list[Due] = []
        while heap and heap[0][0] <= at and len(due) < most:
            one = heapq.heappop(heap)
            if self._counts(*one):
                due.append(one)
        return due

    def _with_new_timers(self) -> list[Due]:
        timers, last = self._log.history.timers, self._log.history.last_timer
        # After a recovery there may be many more numbers than open timers.
        new = range(self._last_timer + 1, last + 1)
        for timer in new if len(new) <= len(timers) + _FEW else sorted(timers):
            if timer in timers:
                heapq.heappush(self._heap, (timers[timer], "timer", timer))
        self._last_timer = last
        if len(self._heap) > self._most:
            self._heap = [one for one in self._heap if self._counts(*one)]
            heapq.heapify(self._heap)
            self._most = 2 * len(self._heap) + _FEW
        return self._heap

    def _counts(self, when: float, kind: TimerKind, number: int) -> bool:
        """Whether the flow still waits for it. A timer that the flow's code no longer awaits is forgotten."""
        if kind == "timer":
            if self._driver.awaits_timer(number):
                return True
            self._log.history.timers.pop(number, None)
            return False
        return (self.retries if kind == "retry" else self.callbacks).get(number) == when
