"""The attempts that run in a worker: each has a place, and leave to call what it talks to."""

from collections.abc import Callable, Collection

from redrive.engine.dependency_guard import DependencyGuard
from redrive.engine.places import Places
from redrive.runners.attempt import Attempt


class UnderWay:
    def __init__(
        self, places: Places, guard: DependencyGuard, cancel: Callable[[Attempt], None], now: Callable[[], float]
    ) -> None:
        self._places = places
        self._guard = guard
        self._cancel = cancel
        self._now = now
        self._attempts: dict[tuple[str, int], Attempt] = {}
        """By flow and item."""

    def __len__(self) -> int:
        return len(self._attempts)

    def begin(self, attempt: Attempt) -> None:
        self._attempts[attempt.flow_id, attempt.item] = attempt

    def end(self, attempt: Attempt) -> bool:
        """It has ended; False when it was stopped before, and its place was given up then."""
        key = attempt.flow_id, attempt.item
        if self._attempts.get(key) is not attempt:
            return False
        del self._attempts[key]
        self._places.free(attempt.place)
        return True

    def stop(self, flow_id: str, item: int) -> None:
        attempt = self._attempts.pop((flow_id, item), None)
        if attempt is not None:
            self._cancel(attempt)
            self._guard.ignored((flow_id, item), self._now())
            self._places.free(attempt.place)

    def items_of(self, flow_id: str) -> set[int]:
        return {item for flow, item in self._attempts if flow == flow_id}

    def stop_all_but(self, flow_id: str, items: Collection[int]) -> None:
        for item in self.items_of(flow_id).difference(items):
            self.stop(flow_id, item)
