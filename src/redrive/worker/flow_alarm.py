"""Wake one flow at a time of day."""

import math
from collections.abc import Callable

from redrive.worker.timer_queue import Timer, TimerQueue


class FlowAlarm:
    """Holds at most one timer: setting it replaces the one before."""

    __slots__ = ("_queue", "_timer", "on_wake", "when")

    def __init__(self, queue: TimerQueue) -> None:
        self._queue = queue
        self._timer: Timer | None = None
        self.when = math.inf
        """When it goes off; infinity while it is not set."""
        self.on_wake: Callable[[], None]

    def set(self, when: float) -> None:
        self.cancel()
        self.when = when
        self._timer = self._queue.schedule(when, self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._queue.cancel(self._timer)
            self._timer = None
        self.when = math.inf

    def _fire(self) -> None:
        self._timer = None
        self.when = math.inf
        self.on_wake()
