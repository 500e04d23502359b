"""What a flow waits for: retries of its items, word of how their attempts ended, and timers of its code."""

import heapq
import math

from redrive.flows.driver import Driver
from redrive.flows.history import FlowHistory

# So many that nobody waits for any more may lie among the others before they are cleared away.
_FEW = 100


class Waits:
    """Retries by item, beside the timers that the history knows. What comes first is found without a look at all."""

    __slots__ = ("_ahead", "_driver", "_history", "_last_timer", "_most", "callbacks", "retries")

    def __init__(self, history: FlowHistory, driver: Driver) -> None:
        self.retries: dict[int, float] = {}
        """Item -> when its next attempt may begin."""
        self.callbacks: dict[int, float] = {}
        """Item -> by when someone must have said how its attempt ended."""
        self._ahead: list[tuple[float, str, int]] = []
        """A heap of all of them, and of some that have ended since."""
        self._most = _FEW
        self._last_timer = 0
        """The last one in the heap: they are counted."""
        self._history = history
        self._driver = driver

    def __bool__(self) -> bool:
        return bool(self.retries or self.callbacks or self._history.timers)

    def put_retry(self, item: int, when: float) -> None:
        if self.retries.get(item) != when:
            self.retries[item] = when
            heapq.heappush(self._ahead, (when, "retry", item))

    def put_callback(self, item: int, when: float) -> None:
        if self.callbacks.get(item) != when:
            self.callbacks[item] = when
            heapq.heappush(self._ahead, (when, "callback", item))

    def first(self) -> float:
        """When the first of them ends; infinity when there is none. Timers that nobody awaits any more are dropped."""
        ahead = self._with_new_timers()
        while ahead and not self._lasts(*ahead[0]):
            heapq.heappop(ahead)
        return ahead[0][0] if ahead else math.inf

    def due(self, at: float, most: int) -> list[tuple[float, str, int]]:
        """Take out what has ended by then, in order: its time, "retry", "callback" or "timer", and its number."""
        ahead = self._with_new_timers()
        due: list[tuple[float, str, int]] = []
        while ahead and ahead[0][0] <= at and len(due) < most:
            one = heapq.heappop(ahead)
            if self._lasts(*one):
                due.append(one)
        return due

    def _with_new_timers(self) -> list[tuple[float, str, int]]:
        timers, last = self._history.timers, self._history.last_timer
        for timer in range(self._last_timer + 1, last + 1):
            if timer in timers:
                heapq.heappush(self._ahead, (timers[timer], "timer", timer))
        self._last_timer = last
        if len(self._ahead) > self._most:
            self._ahead = [one for one in self._ahead if self._lasts(*one)]
            heapq.heapify(self._ahead)
            self._most = 2 * len(self._ahead) + _FEW
        return self._ahead

    def _lasts(self, when: float, what: str, number: int) -> bool:
        """Whether it is still waited for, and until then."""
        if what == "timer":
            if self._driver.awaits_timer(number):
                return True
            self._history.timers.pop(number, None)
            return False
        return (self.retries if what == "retry" else self.callbacks).get(number) == when
