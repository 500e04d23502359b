"""What a flow waits for: retries of its items, word of how their attempts ended, and timers of its code."""

import math

from redrive.flows.driver import Driver
from redrive.flows.history import FlowHistory


class Waits:
    """Retries by item, beside the timers that the history knows."""

    __slots__ = ("_driver", "_history", "callbacks", "retries")

    def __init__(self, history: FlowHistory, driver: Driver) -> None:
        self.retries: dict[int, float] = {}
        """Item -> when its next attempt may begin."""
        self.callbacks: dict[int, float] = {}
        """Item -> by when someone must have said how its attempt ended."""
        self._history = history
        self._driver = driver

    def __bool__(self) -> bool:
        return bool(self.retries or self.callbacks or self._history.timers)

    def first(self) -> float:
        """When the first of them ends; infinity when there is none. Timers that nobody awaits any more are dropped."""
        timers = self._history.timers
        if timers:
            for timer in [timer for timer in timers if not self._driver.awaits_timer(timer)]:
                del timers[timer]
        waits = (self.retries, self.callbacks, timers)
        return min(min(times.values(), default=math.inf) for times in waits)

    def due(self, at: float) -> list[tuple[float, str, int]]:
        """What has ended by then, in order: its time, "retry", "callback" or "timer", and the number of that."""
        due = [(when, "retry", item) for item, when in self.retries.items() if when <= at]
        due += [(when, "callback", item) for item, when in self.callbacks.items() if when <= at]
        due += [(until, "timer", timer) for timer, until in self._history.timers.items() if until <= at]
        return sorted(due)
