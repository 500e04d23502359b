"""Limit how many attempts run at once in a worker, per executor; further attempts wait in line."""

from collections import deque
from collections.abc import Callable

from redrive.flows.action import Executor


class ExecutionSlots:
    """One slot per running attempt. A freed slot goes to the attempt that has waited longest for that executor."""

    def __init__(self, limits: dict[Executor, int]) -> None:
        self._limits = limits
        self._in_use: dict[Executor, int] = dict.fromkeys(limits, 0)
        self._waiting: dict[Executor, deque[Callable[[], bool]]] = {executor: deque() for executor in limits}
        self.closed = False
        """True once the worker is stopping: no further attempt gets a slot."""

    def acquire(self, executor: Executor) -> bool:
        """Take a slot; False when all are in use."""
        if self.closed or self._in_use[executor] >= self._limits[executor]:
            return False
        self._in_use[executor] += 1
        return True

    def wait(self, executor: Executor, start: Callable[[], bool]) -> None:
        """Call `start` once a slot has been acquired for it. `start` returns False when it no longer needs the slot."""
        self._waiting[executor].append(start)

    def release(self, executor: Executor) -> None:
        self._in_use[executor] -= 1
        waiting = self._waiting[executor]
        while waiting and self.acquire(executor):
            if not waiting.popleft()():
                self._in_use[executor] -= 1

    @property
    def has_waiters(self) -> bool:
        return any(self._waiting.values())

    @property
    def in_use(self) -> int:
        return sum(self._in_use.values())
