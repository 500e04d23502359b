"""How many items of a step run at once in one flow."""

from collections.abc import Callable


class Lanes:
    """One for each step that has a limit. An item in backoff is in none, so that another may run."""

    __slots__ = ("_at_once", "_inside", "_waiting")

    def __init__(self, at_once: Callable[[str], int | None]) -> None:
        self._at_once = at_once
        self._inside: dict[str, set[int]] = {}
        self._waiting: dict[str, dict[int, None]] = {}

    def enter(self, step: str, item: int) -> bool:
        """Whether the item may run now; else it waits until `next` names it."""
        most = self._at_once(step)
        if most is None:
            return True
        inside, waiting = self._inside.setdefault(step, set()), self._waiting.setdefault(step, {})
        if item in inside or len(inside) < most:
            inside.add(item)
            # It may have come by itself, after a pause: who is named later must be one that still waits.
            waiting.pop(item, None)
            return True
        waiting[item] = None
        return False

    def leave(self, step: str, item: int) -> None:
        """The item runs no longer."""
        self._inside.get(step, set()).discard(item)

    def next(self, step: str) -> int | None:
        """Who may enter next; None when there is no room, or nobody waits."""
        waiting = self._waiting.get(step)
        most = self._at_once(step)
        if not waiting or (most is not None and len(self._inside[step]) >= most):
            return None
        item = next(iter(waiting))
        del waiting[item]
        return item
