"""What a flow waits for: retries of its items, and timers of its code."""

import math

from redrive.flows.driver import Driver
from redrive.flows.history import FlowHistory


class Waits:
    """Retries by item, beside the timers that the history knows."""

    __slots__ = ("_driver", "_history", "retries")

    def __init__(self, history: FlowHistory, driver: Driver) -> None:
        self.retries: dict[int, float] = {}
        """Item -> when its next attempt may begin."""
        self._history = history
        self._driver = driver

    def __bool__(self) -> bool:
        return bool(self.retries or self._history.timers)

    def first(self) -> float:
        """When the first of them ends; infinity when there is none. Timers that nobody awaits any more are dropped."""
        timers = self._history.timers
        if timers:
            for timer in [timer for timer in timers if not self._driver.awaits_timer(timer)]:
                del timers[timer]
        return min(min(self.retries.values(), default=math.inf), min(timers.values(), default=math.inf))

    def due(self, at: float) -> list[tuple[float, str, int]]:
        """What has ended by then, in order: its time, "retry" or "timer", and the number of the item or timer."""
        due = [(when, "retry", item) for item, when in self.retries.items() if when <= at]
        due += [(until, "timer", timer) for timer, until in self._history.timers.items() if until <= at]
        return sorted(due)
