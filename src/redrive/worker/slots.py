"""Execution slots: which attempts run in this worker, and which wait until one is free."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future

from redrive.failures.failure import Failure
from redrive.runners.attempt import Attempt, Slot
from redrive.worker.dependency_guard import DependencyGuard

ALONE_FOR = 30.0
"""For how many seconds an attempt that may take its worker down runs without another such attempt beside it."""
TRIED_AT_ONCE = 200
"""Attempts that are offered a free slot in one turn: when a flow ends, thousands may no longer need one."""

LOOKED_AT = 1000
"""How many waiting attempts are looked at to find their flows: one flow may have a hundred thousand of them."""

_Waiter = tuple[str, Callable[[int, Slot], bool], int]
"""A flow's id, what to call with a slot, and for which item. One object: a flow may have a hundred thousand of them."""


class ExecutionSlots:
    """Limits the running attempts per executor. A freed slot goes to the attempt that has waited longest for it."""

    def __init__(
        self,
        limits: dict[Slot, int],
        on_alone_long: Callable[[Attempt], None],
        guard: DependencyGuard,
        cancel: Callable[[Attempt], None],
        monotonic: Callable[[], float],
        on_fault: Callable[[str, Exception], None],
    ) -> None:
        """on_alone_long: called with an attempt that has run alone for ALONE_FOR; see `end_alone`.

        guard: is told how attempts end. cancel: stops an attempt without reporting its outcome.

        on_fault: called with the id of a flow that failed to use a slot, and the error.
        """
        self._limits = limits
        self._on_alone_long = on_alone_long
        self._guard = guard
        self._cancel = cancel
        self._monotonic = monotonic
        self._on_fault = on_fault
        self._in_use: dict[Slot, int] = dict.fromkeys(limits, 0)
        self._waiting: dict[Slot, deque[_Waiter]] = {slot: deque() for slot in limits}
        self._attempts: dict[tuple[str, int], Attempt] = {}
        """The running attempts, by flow and item."""
        self._alone: Attempt | None = None
        """The suspect that runs, as long as no other may begin."""
        self.closed = False
        """True once the worker is stopping: no further attempt gets a slot."""

    # Slots

    def acquire(self, slot: Slot) -> bool:
        """Take a slot; False when all are in use."""
        if self.closed or self._in_use[slot] >= self._limits[slot]:
            return False
        self._in_use[slot] += 1
        return True

    def wait(self, slot: Slot, flow_id: str, start: Callable[[int, Slot], bool], item: int) -> None:
        """Call `start(item, slot)` once a slot has been acquired; it returns False when it no longer needs one."""
        self._waiting[slot].append((flow_id, start, item))

    def release(self, slot: Slot) -> None:
        self._in_use[slot] -= 1
        if self._waiting[slot]:
            self._fill(slot)

    def _fill(self, slot: Slot) -> None:
        """Give the free slots to the attempts that have waited longest."""
        waiting = self._waiting[slot]
        for _ in range(TRIED_AT_ONCE):
            if not waiting or not self.acquire(slot):
                return
            flow_id, start, item = waiting.popleft()
            try:
                used = start(item, slot)
            except Exception as error:  # noqa: BLE001 - a fault in one flow must not harm the flow that freed the slot
                used = False
                self._on_fault(flow_id, error)
            if not used:
                self._in_use[slot] -= 1
        asyncio.get_running_loop().call_soon(self._fill, slot)

    @property
    def has_waiters(self) -> bool:
        return any(self._waiting.values())

    def flows_in_long_lines(self) -> dict[str, int]:
        """The flows that wait for an executor with at least as many waiters as slots, and its number of slots.

        Further flows of the same definitions could not begin soon.
        """
        # Suspects share one slot, so their line says nothing about other flows of their definitions.
        lines = [(line, self._limits[slot]) for slot, line in self._waiting.items() if slot != "alone"]
        return {
            flow_id: limit
            for line, limit in lines
            if len(line) >= limit
            for flow_id, _, _ in itertools.islice(line, LOOKED_AT)
        }

    def use(self) -> dict[str, tuple[int, int, int]]:
        """Slot -> how many there are, how many are in use, and how many attempts wait for one."""
        return {slot: (size, self._in_use[slot], len(self._waiting[slot])) for slot, size in self._limits.items()}

    @property
    def in_use(self) -> int:
        return sum(self._in_use.values())

    # The attempts in them

    def begin(self, attempt: Attempt) -> None:
        """The attempt runs from now on, in a slot that was acquired for it."""
        self._attempts[attempt.flow_id, attempt.item] = attempt
        if attempt.slot == "alone":
            self._alone = attempt
            asyncio.get_running_loop().call_later(ALONE_FOR, self._alone_long, attempt)

    def _alone_long(self, attempt: Attempt) -> None:
        if self._alone is attempt:
            self._on_alone_long(attempt)

    def end_alone(self, attempt: Attempt) -> None:
        """Let the next suspect begin, once it is durable that this attempt is not alone any more."""
        if self._alone is attempt:
            self._alone = None
            attempt.slot = attempt.executor
            self._in_use[attempt.slot] += 1
            self.release("alone")

    def give_back(self, flow_id: str, item: int, slot: Slot) -> None:
        """Return the slot and the circuit permit of an attempt that does not begin after all."""
        self._guard.ignored((flow_id, item), self._monotonic())
        self.release(slot)

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
            self._release_slot_of(attempt)
            return
        # An attempt that got the slot now would wait for the busy thread while its own timeout runs.
        loop = asyncio.get_running_loop()

        def thread_is_free(_: "Future[str]") -> None:
            # The loop may be closed by then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._release_slot_of, attempt)

        call.add_done_callback(thread_is_free)

    def _release_slot_of(self, attempt: Attempt) -> None:
        if self._alone is attempt:
            self._alone = None
        self.release(attempt.slot)

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

    def first_attempts(self, most: int) -> list[Attempt]:
        """The attempts that run, up to that many, those that began first."""
        return list(itertools.islice(self._attempts.values(), most))

    def items_of(self, flow_id: str) -> set[int]:
        """The items of a flow whose attempts run here."""
        return {item for flow, item in self._attempts if flow == flow_id}

    @property
    def running(self) -> int:
        """How many attempts run."""
        return len(self._attempts)
