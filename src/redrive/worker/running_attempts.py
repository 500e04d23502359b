"""The attempts that run in this worker: each holds an execution slot and may hold a circuit permit."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from concurrent.futures import Future

from redrive.failures.failure import Failure
from redrive.flows.action import Executor
from redrive.runners.attempt import Attempt
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.slots import ExecutionSlots


class RunningAttempts:
    def __init__(
        self,
        slots: ExecutionSlots,
        guard: DependencyGuard,
        cancel: Callable[[Attempt], None],
        monotonic: Callable[[], float],
    ) -> None:
        """cancel: stops an attempt, wherever it runs, without reporting its outcome."""
        self._slots = slots
        self._guard = guard
        self._cancel = cancel
        self._monotonic = monotonic
        self._attempts: dict[tuple[str, int], Attempt] = {}
        """By flow and item."""

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempt: Attempt) -> None:
        self._attempts[attempt.flow_id, attempt.item] = attempt

    def give_back(self, flow_id: str, item: int, executor: Executor) -> None:
        """Return the slot and the permit of an attempt that does not begin after all."""
        self._guard.ignored((flow_id, item), self._monotonic())
        self._slots.release(executor)

    def finish(self, attempt: Attempt, failure: Failure | None = None) -> bool:
        """Remove an attempt that succeeded, or failed with this failure, and tell its circuit. It keeps its slot.

        False when it was stopped before, and its slot freed.
        """
        key = attempt.flow_id, attempt.item
        if self._attempts.get(key) is not attempt:
            return False
        del self._attempts[key]
        if self._guard.permits:
            if failure is None:
                self._guard.succeeded(key, self._monotonic())
            else:
                self._guard.failed(key, attempt.policy, failure, self._monotonic())
        return True

    def stop(self, flow_id: str, item: int) -> None:
        """Cancel an attempt and free its slot."""
        attempt = self._attempts.pop((flow_id, item), None)
        if attempt is not None:
            self._cancel(attempt)
            self._guard.ignored((flow_id, item), self._monotonic())
            self.free_slot(attempt)

    def discard(self, attempt: Attempt) -> None:
        """Remove an attempt whose outcome could not be handled; does nothing once it has finished."""
        key = attempt.flow_id, attempt.item
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
            self.give_back(attempt.flow_id, attempt.item, attempt.executor)

    def free_slot(self, attempt: Attempt) -> None:
        """Give the slot to the next attempt in line; for a thread that cannot be stopped, once it has ended."""
        call = attempt.thread_call
        if call is None or call.done():
            self._slots.release(attempt.executor)
            return
        # An attempt that got the slot now would wait for the busy thread while its own timeout runs.
        loop = asyncio.get_running_loop()

        def thread_is_free(_: "Future[str]") -> None:
            # The loop may be closed by then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._slots.release, attempt.executor)

        call.add_done_callback(thread_is_free)

    def items_of(self, flow_id: str) -> set[int]:
        return {item for flow, item in self._attempts if flow == flow_id}

    def stop_all_but(self, flow_id: str, items: Collection[int]) -> None:
        for item in self.items_of(flow_id).difference(items):
            self.stop(flow_id, item)
