"""Limit how many items of a step run at once within one flow (`parallelism`)."""

from collections.abc import Callable


class StepConcurrency:
    """Counts the running items of each limited step. An item in backoff is not counted, so another one may run."""

    __slots__ = ("_limit", "_slots", "_waiting")

    def __init__(self, limit: Callable[[str], int | None]) -> None:
        """limit: how many items of a step may run at once; None for any number."""
        self._limit = limit
        self._slots: dict[str, set[int]] = {}
        self._waiting: dict[str, dict[int, None]] = {}

    def acquire(self, step: str, item: int) -> bool:
        """Whether the item may run now. Otherwise it waits until `next` returns it."""
        limit = self._limit(step)
        if limit is None:
            return True
        running, waiting = self._slots.setdefault(step, set()), self._waiting.setdefault(step, {})
        if item in running or len(running) < limit:
            running.add(item)
            # The item may have been waiting when a pause ended; `next` must only return items that still wait.
            waiting.pop(item, None)
            return True
        waiting[item] = None
        return False

    def release(self, step: str, item: int) -> None:
        """The item no longer runs."""
        if running := self._slots.get(step):
            running.discard(item)

    def next(self, step: str) -> int | None:
        """The item that may run next; None when the limit is reached or no item waits."""
        waiting = self._waiting.get(step)
        limit = self._limit(step)
        if not waiting or (limit is not None and len(self._slots[step]) >= limit):
            return None
        item = next(iter(waiting))
        del waiting[item]
        return item
