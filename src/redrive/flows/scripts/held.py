"""How much a script holds at one time, whatever it waited for meanwhile."""

import gc
import sys
from typing import Any

SMALL = 100
"""Shorter texts and lists are not counted; the steps that make them are."""
ELEMENT = 8
"""Characters that an element of a list or a dict is as much as: a reference to it."""
_A_LOOK = 10_000_000
"""Characters that are made before it is worth a look at what is left of them."""


class Held:
    """The large values that a script made. Python knows which are still in use: it counts who refers to them."""

    __slots__ = ("_left", "_made", "_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: list[Any] = []
        self._made = 0
        """Characters since the last look."""
        self._left = 0
        """At the last look."""

    def add(self, value: Any, size: int) -> bool:
        """Whether it is still less than a script may hold, with this value."""
        self._values.append(value)
        self._made += size
        if self._made <= max(_A_LOOK, self._left) and self._left <= self._most:
            return True
        self._look()
        if self._left > self._most:
            # What errors hold in circles is in use for nobody.
            gc.collect()
            self._look()
        return self._left <= self._most

    def rest(self) -> None:
        """Keep nothing large that nobody else does, for as long as the script waits."""
        if self._made > _A_LOOK // 100:
            self._look()

    def _look(self) -> None:
        once = {id(one): one for one in self._values}
        self._values = []
        self._values = _in_use(once)
        self._left = sum(len(one) * (1 if isinstance(one, str) else ELEMENT) for one in self._values)
        self._made = 0


def _in_use(values: dict[int, Any]) -> list[Any]:
    """Those that someone else refers to."""
    return [one for one in values.values() if sys.getrefcount(one) > _ALONE]


def _references_of_one() -> int:
    """What Python counts there for a value that nobody else refers to."""
    values = {0: object()}
    return next(sys.getrefcount(one) for one in values.values())


_ALONE = _references_of_one()
