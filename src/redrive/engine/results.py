"""Wait for flows to end. Whoever ends one in this process says so; for others there is looking again."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from redrive.engine.handle import FlowCancelledError, FlowNotFound
from redrive.engine.log_lines import lines_of
from redrive.flows.events import AnyEvent, FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import error_of
from redrive.flows.history import Line, fold
from redrive.flows.portable_errors import rebuild_error
from redrive.flows.registry import ACTION, WORKFLOW, UnknownDefinition, action_named, workflow_named
from redrive.stores.errors import StoreError, StoreUnavailable
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, FlowRecord

# How often flows that others may end are looked at: rarely where this process works on them itself.
SWEEP = 0.05
SWEEP_BESIDE_WORKER = 0.5

ReadResult = Callable[[str], Any]
Waiter = asyncio.Future["FlowRecord | AnyEvent | None"]


class Results:
    """All who wait in this process share one look at the store."""

    def __init__(self, store: Store, sweep: float, is_here: Callable[[str], bool]) -> None:
        """`is_here` says of which flows this process will tell when they end: those need not be looked at at once."""
        self._store = store
        self._is_here = is_here
        self._sweep = sweep
        self._waiters: dict[str, set[Waiter]] = {}
        self._unseen: set[str] = set()
        self._watching: asyncio.Task[None] | None = None
        self._someone_came = asyncio.Event()

    def tell(self, flow_id: str, ending: AnyEvent) -> None:
        """A flow ended in this process."""
        self._answer(flow_id, ending)

    async def wait(self, flow_id: str, read: ReadResult | None, timeout: float | None) -> Any:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(flow_id, set()).add(waiter)
        if not self._is_here(flow_id):
            self._unseen.add(flow_id)
            self._someone_came.set()
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            ended = await _within(waiter, timeout)
        except TimeoutError:
            status = await self._status(flow_id)
            raise TimeoutError(f"flow {flow_id} is still {status} after {timeout:g} s") from None
        finally:
            self._forget(flow_id, waiter)
        if ended is None:
            raise FlowNotFound(flow_id, self._store.address)
        if isinstance(ended, FlowCompleted) and read is not None:
            return read(bytes(ended.result).decode())
        record = ended if isinstance(ended, FlowRecord) else await self._store.find_flow(flow_id)
        assert record is not None  # noqa: S101 - it has ended just now
        rows = (await self._store.read_events([flow_id]))[flow_id]
        ending = lines_of(rows[-1:])[-1].event
        # Only a failure needs what came before it.
        lines = lines_of(rows) if isinstance(ending, FlowFailed) else []
        return outcome(flow_id, ending, lines, read or _reader(record.definition))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        """Look at the flows that are waited for: new ones at once, all of them now and then."""
        loop = asyncio.get_running_loop()
        try:
            next_sweep = loop.time() + self._sweep
            while self._waiters:
                self._someone_came.clear()
                if loop.time() >= next_sweep:
                    ids = list(self._waiters)
                    next_sweep = loop.time() + self._sweep
                else:
                    ids = list(self._unseen)
                self._unseen.clear()
                try:
                    await self._look(ids)
                except StoreUnavailable:
                    # It comes back, and whoever waits has time.
                    pass
                except StoreError as error:
                    self.fail(error)
                timer = loop.call_later(max(0.0, next_sweep - loop.time()), self._someone_came.set)
                await self._someone_came.wait()
                timer.cancel()
        finally:
            self._watching = None

    async def _look(self, ids: list[str]) -> None:
        if not ids:
            return
        found = await self._store.find_flows(ids)
        for flow_id in ids:
            record = found.get(flow_id)
            if record is None or record.status in FINISHED:
                self._answer(flow_id, record)

    def _answer(self, flow_id: str, answer: FlowRecord | AnyEvent | None) -> None:
        for waiter in self._waiters.pop(flow_id, ()):
            if not waiter.done():
                waiter.set_result(answer)

    def fail(self, error: StoreError) -> None:
        """Nobody will ever know how they end: tell all who wait."""
        waiting, self._waiters = self._waiters, {}
        for waiter in itertools.chain.from_iterable(waiting.values()):
            if not waiter.done():
                waiter.set_exception(error)

    async def _status(self, flow_id: str) -> str:
        try:
            record = await self._store.find_flow(flow_id)
        except StoreUnavailable:
            return "out of reach"
        return "missing" if record is None else record.status

    def _forget(self, flow_id: str, waiter: Waiter) -> None:
        waiters = self._waiters.get(flow_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[flow_id]


async def _within(waiter: Waiter, timeout: float | None) -> FlowRecord | AnyEvent | None:
    if timeout is None:
        return await waiter
    async with asyncio.timeout(timeout):
        return await waiter


def outcome(flow_id: str, ending: AnyEvent, lines: list[Line], read: ReadResult) -> Any:
    """What a flow that ended has to say: its result, or its error raised, with the attempts attached."""
    if isinstance(ending, FlowCompleted):
        return read(bytes(ending.result).decode())
    if isinstance(ending, FlowCancelled):
        raise FlowCancelledError(flow_id, ending.why)
    assert isinstance(ending, FlowFailed)  # noqa: S101 - the ways a flow can end
    if ending.item is not None:
        item = fold(lines).items[ending.item]
        last = item.failures[-1].event if item.failures else None
        if last is not None and (last.error.type, last.error.message) == (ending.error.type, ending.error.message):
            # The item's own error, not one that the flow's code raised about it: its attempts belong to it.
            error = error_of(item, last)
            for note in ending.error.notes:
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
            raise error
    raise rebuild_error(ending.error)


def _reader(definition: str) -> ReadResult:
    """How the result of a flow is read: by its type hint where the definition is known, else as plain data."""
    with contextlib.suppress(UnknownDefinition):
        if definition.startswith(WORKFLOW):
            return workflow_named(definition.removeprefix(WORKFLOW)).signature.read_result
        return action_named(definition.removeprefix(ACTION)).signature.read_result
    return msgspec.json.decode
