"""The attempts that run in a worker: each has a place, and leave to call what it talks to."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from concurrent.futures import Future

from redrive.failures.failure import Failure
from redrive.runners.attempt import Attempt
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.slots import Places


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

    def end(self, attempt: Attempt, failure: Failure | None = None) -> bool:
        """It has ended, well or with this failure; False when it was stopped before: its place was given up then."""
        key = attempt.flow_id, attempt.item
        if self._attempts.get(key) is not attempt:
            return False
        del self._attempts[key]
        # First: whoever gets the place may ask for leave to call the same.
        if failure is not None:
            self._guard.failed(key, attempt.policy, failure, self._now())
        elif self._guard.permits:
            self._guard.succeeded(key, self._now())
        if attempt.thread_call is None:
            self._places.free(attempt.executor)
        else:
            self._free_place(attempt)
        return True

    def stop(self, flow_id: str, item: int) -> None:
        attempt = self._attempts.pop((flow_id, item), None)
        if attempt is not None:
            self._cancel(attempt)
            self._guard.ignored((flow_id, item), self._now())
            self._free_place(attempt)

    def _free_place(self, attempt: Attempt) -> None:
        call = attempt.thread_call
        if call is None or call.done():
            self._places.free(attempt.executor)
            return
        # It goes on in its thread. Whoever got the place now would wait for that thread while its own time runs.
        loop = asyncio.get_running_loop()

        def thread_is_free(_: "Future[str]") -> None:
            # The loop may be closed by then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._places.free, attempt.executor)

        call.add_done_callback(thread_is_free)

    def items_of(self, flow_id: str) -> set[int]:
        return {item for flow, item in self._attempts if flow == flow_id}

    def stop_all_but(self, flow_id: str, items: Collection[int]) -> None:
        for item in self.items_of(flow_id).difference(items):
            self.stop(flow_id, item)
