"""How many attempts may run at once in a worker, by where they run; who finds no place waits in line."""

from collections import deque
from collections.abc import Callable

from redrive.flows.action import Place


class Places:
    """Places for attempts. `serve` is called with whoever has waited longest, once there is a place for them."""

    def __init__(self, limits: dict[Place, int]) -> None:
        self.limits = limits
        self._taken: dict[Place, int] = dict.fromkeys(limits, 0)
        self._lines: dict[Place, deque[Callable[[], bool]]] = {place: deque() for place in limits}
        self.closed = False
        """True: no attempt begins any more."""

    def take(self, place: Place) -> bool:
        """Whether an attempt may begin there now; the place is then taken for it."""
        if self.closed or self._taken[place] >= self.limits[place]:
            return False
        self._taken[place] += 1
        return True

    def line_up(self, place: Place, begin: Callable[[], bool]) -> None:
        """`begin` is called once a place has been taken for it; False says that it is no longer needed."""
        self._lines[place].append(begin)

    def free(self, place: Place) -> None:
        self._taken[place] -= 1
        line = self._lines[place]
        while line and self.take(place):
            if not line.popleft()():
                self._taken[place] -= 1

    @property
    def someone_waits(self) -> bool:
        return any(self._lines.values())

    @property
    def taken(self) -> int:
        return sum(self._taken.values())
