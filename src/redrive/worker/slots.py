"""How many attempts may run at once in a worker, by where they run; who finds no place waits in line."""

from collections import deque
from collections.abc import Callable

from redrive.flows.action import Executor


class Places:
    """Places for attempts. `serve` is called with whoever has waited longest, once there is a place for them."""

    def __init__(self, limits: dict[Executor, int]) -> None:
        self.limits = limits
        self._taken: dict[Executor, int] = dict.fromkeys(limits, 0)
        self._lines: dict[Executor, deque[Callable[[], bool]]] = {executor: deque() for executor in limits}
        self.closed = False
        """True: no attempt begins any more."""

    def take(self, executor: Executor) -> bool:
        """Whether an attempt may begin there now; the place is then taken for it."""
        if self.closed or self._taken[executor] >= self.limits[executor]:
            return False
        self._taken[executor] += 1
        return True

    def line_up(self, executor: Executor, begin: Callable[[], bool]) -> None:
        """`begin` is called once a place has been taken for it; False says that it is no longer needed."""
        self._lines[executor].append(begin)

    def free(self, executor: Executor) -> None:
        self._taken[executor] -= 1
        line = self._lines[executor]
        while line and self.take(executor):
            if not line.popleft()():
                self._taken[executor] -= 1

    @property
    def someone_waits(self) -> bool:
        return any(self._lines.values())

    @property
    def taken(self) -> int:
        return sum(self._taken.values())
