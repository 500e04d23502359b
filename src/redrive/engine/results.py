"""Wait for flows to end. Whoever ends one in this process says so; for others there is looking again."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.engine.handle import FlowCancelledError
from redrive.flows.events import AnyEvent, FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import error_of
from redrive.flows.history import Line, fold
from redrive.flows.portable_errors import rebuild_error
from redrive.flows.registry import ACTION, WORKFLOW, UnknownDefinition, action_named, workflow_named
from redrive.stores.errors import StoreUnavailable
from redrive.stores.records import FINISHED, FlowRecord

FIRST_LOOK = 0.02
LONGEST_LOOK = 0.5

ReadResult = Callable[[str], Any]


class Results:
    def __init__(
        self, find: Callable[[str], Awaitable[FlowRecord]], log: Callable[[str], Awaitable[list[Line]]]
    ) -> None:
        self._find = find
        self._log = log
        self._waiters: dict[str, set[asyncio.Future[AnyEvent]]] = {}

    def tell(self, flow_id: str, ending: AnyEvent) -> None:
        """A flow ended in this process."""
        for waiter in self._waiters.pop(flow_id, ()):
            if not waiter.done():
                waiter.set_result(ending)

    async def wait(self, flow_id: str, read: ReadResult | None, timeout: float | None) -> Any:
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        look_again = FIRST_LOOK
        while True:
            waiter: asyncio.Future[AnyEvent] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(flow_id, set()).add(waiter)
            try:
                status = "out of reach"
                # A store that is away comes back, and whoever waits has time.
                with contextlib.suppress(StoreUnavailable):
                    record = await self._find(flow_id)
                    status = record.status
                    if status in FINISHED:
                        lines = await self._log(flow_id)
                        return outcome(flow_id, lines[-1].event, lines, read or _reader(record.definition))
                left = None if deadline is None else deadline - SYSTEM_CLOCK.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"flow {flow_id} is still {status} after {timeout:g} s")
                await asyncio.wait([waiter], timeout=look_again if left is None else min(left, look_again))
                if waiter.done() and read is not None and isinstance(waiter.result(), FlowCompleted):
                    return outcome(flow_id, waiter.result(), [], read)
                look_again = min(look_again * 2, LONGEST_LOOK)
            finally:
                self._forget(flow_id, waiter)

    def _forget(self, flow_id: str, waiter: "asyncio.Future[AnyEvent]") -> None:
        waiters = self._waiters.get(flow_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[flow_id]


def outcome(flow_id: str, ending: AnyEvent, lines: list[Line], read: ReadResult) -> Any:
    """What a flow that ended has to say: its result, or its error raised, with the attempts attached."""
    if isinstance(ending, FlowCompleted):
        return read(bytes(ending.result).decode())
    if isinstance(ending, FlowCancelled):
        raise FlowCancelledError(flow_id)
    assert isinstance(ending, FlowFailed)  # noqa: S101 - the ways a flow can end
    if ending.item is not None:
        item = fold(lines).items[ending.item]
        last = item.failures[-1].event if item.failures else None
        if last is not None and (last.error.type, last.error.message) == (ending.error.type, ending.error.message):
            # The item's own error, not one that the flow's code raised about it: its attempts belong to it.
            raise error_of(item, last)
    raise rebuild_error(ending.error)


def _reader(definition: str) -> ReadResult:
    """How the result of a flow is read: by its type hint where the definition is known, else as plain data."""
    with contextlib.suppress(UnknownDefinition):
        if definition.startswith(WORKFLOW):
            return workflow_named(definition.removeprefix(WORKFLOW)).signature.read_result
        return action_named(definition.removeprefix(ACTION)).signature.read_result
    return msgspec.json.decode
