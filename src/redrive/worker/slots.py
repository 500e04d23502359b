"""Execution slots: which attempts run in this worker, and which wait until one is free."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future

from redrive.failures.failure import Failure
from redrive.flows.action import Executor
from redrive.runners.attempt import Attempt
from redrive.worker.dependency_guard import DependencyGuard

_Waiter = tuple[str, Callable[[], bool]]
"""A flow's id, and what to call with a slot."""


class ExecutionSlots:
    """Limits the running attempts per executor. A freed slot goes to the attempt that has waited longest for it."""

    def __init__(
        self,
        limits: dict[Executor, int],
        guard: DependencyGuard,
        cancel: Callable[[Attempt], None],
        monotonic: Callable[[], float],
        on_fault: Callable[[str, Exception], None],
    ) -> None:
        """guard: is told how attempts end. cancel: stops an attempt without reporting its outcome.

        on_fault: called with the id of a flow that failed to use a slot, and the error.
        """
        self._limits = limits
        self._guard = guard
        self._cancel = cancel
        self._monotonic = monotonic
        self._on_fault = on_fault
        self._in_use: dict[Executor, int] = dict.fromkeys(limits, 0)
        self._waiting: dict[Executor, deque[tuple[str, Callable[[], bool]]]] = {
            executor: deque() for executor in limits
        }
        self._attempts: dict[tuple[str, int], Attempt] = {}
        """The running attempts, by flow and item."""
        self.closed = False
        """True once the worker is stopping: no further attempt gets a slot."""

    # Slots

    def acquire(self, executor: Executor) -> bool:
        """Take a slot; False when all are in use."""
        if self.closed or self._in_use[executor] >= self._limits[executor]:
            return False
        self._in_use[executor] += 1
        return True

    def wait(self, executor: Executor, flow_id: str, start: Callable[[], bool]) -> None:
        """Call `start` once a slot has been acquired for it. `start` returns False when it no longer needs the slot."""
        self._waiting[executor].append((flow_id, start))

    def release(self, executor: Executor) -> None:
        self._in_use[executor] -= 1
        waiting = self._waiting[executor]
        while waiting and self.acquire(executor):
            flow_id, start = waiting.popleft()
            try:
                used = start()
            except Exception as error:  # noqa: BLE001 - a fault in one flow must not harm the flow that freed the slot
                used = False
                self._on_fault(flow_id, error)
            if not used:
                self._in_use[executor] -= 1

    @property
    def has_waiters(self) -> bool:
        return any(self._waiting.values())

    @property
    def in_use(self) -> int:
        return sum(self._in_use.values())

    # The attempts in them

    def begin(self, attempt: Attempt) -> None:
        """The attempt runs from now on, in a slot that was acquired for it."""
        self._attempts[attempt.flow_id, attempt.item] = attempt

    def give_back(self, flow_id: str, item: int, executor: Executor) -> None:
        """Return the slot and the circuit permit of an attempt that does not begin after all."""
        self._guard.ignored((flow_id, item), self._monotonic())
        self.release(executor)

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

    def free(self, attempt: Attempt) -> None:
        """Release the slot of a finished attempt; for a thread that cannot be stopped, once it has ended."""
        call = attempt.thread_call
        if call is None or call.done():
            self.release(attempt.executor)
            return
        # An attempt that got the slot now would wait for the busy thread while its own timeout runs.
        loop = asyncio.get_running_loop()

        def thread_is_free(_: "Future[str]") -> None:
            # The loop may be closed by then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.release, attempt.executor)

        call.add_done_callback(thread_is_free)

    def stop(self, flow_id: str, item: int) -> None:
        """Cancel an attempt, if it runs, and free its slot."""
        attempt = self._attempts.pop((flow_id, item), None)
        if attempt is not None:
            self._cancel(attempt)
            self._guard.ignored((flow_id, item), self._monotonic())
            self.free(attempt)

    def stop_all_but(self, flow_id: str, items: Collection[int]) -> None:
        for item in self.items_of(flow_id).difference(items):
            self.stop(flow_id, item)

    def discard(self, attempt: Attempt) -> None:
        """Remove an attempt whose outcome could not be handled; does nothing once it has finished."""
        key = attempt.flow_id, attempt.item
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
            self._guard.ignored(key, self._monotonic())
            self.free(attempt)

    def items_of(self, flow_id: str) -> set[int]:
        """The items of a flow whose attempts run here."""
        return {item for flow, item in self._attempts if flow == flow_id}

    @property
    def running(self) -> int:
        """How many attempts run."""
        return len(self._attempts)
