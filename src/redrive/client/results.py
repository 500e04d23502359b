"""Wait for flows to end. Whoever ends one in this process says so; for others there is looking again."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from redrive.errors import (
    FlowCancelledError,
    FlowNotFoundError,
    StoreUnavailableError,
    StoreUnusableError,
    UnknownDefinitionError,
)
from redrive.flows.events import AnyEvent, Event, FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import error_of
from redrive.flows.history import Line, fold
from redrive.flows.json_forms import is_storable
from redrive.flows.portable_errors import rebuild_error
from redrive.flows.registry import ACTION, WORKFLOW, action_named, workflow_named
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, EventRow, FlowRecord
from redrive.worker.log_lines import lines_of

# How often flows that others may end are looked at: rarely where this process works on them itself.
SWEEP = 0.05
SWEEP_BESIDE_WORKER = 0.5
ASKED_FOR = 1.0
"""Seconds that a store has to say how a flow stands whose result did not come in time."""

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
        self._closed = False

    def tell(self, flow_id: str, ending: AnyEvent) -> None:
        """A flow ended in this process."""
        self._answer(flow_id, ending)

    async def wait(self, flow_id: str, read: ReadResult | None, timeout: float | None) -> Any:
        if not is_storable(flow_id):
            # Not for the store to see: what it refuses is no matter of those who wait for other flows.
            raise FlowNotFoundError(flow_id, self._store.address)
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        looks_at_once = not self._is_here(flow_id)
        while True:
            try:
                ended = await self._ended(flow_id, until, looks_at_once)
            except TimeoutError:
                status = await self._status(flow_id)
                raise TimeoutError(f"flow {flow_id} is still {status} after {timeout:g} s") from None
            if isinstance(ended, FlowCompleted) and read is not None:
                return read(bytes(ended.result).decode())
            # Where what is written of it does not say so yet, or cannot be read now, the next sweep looks again.
            looks_at_once = False
            try:
                record = await self._store.find_flow(flow_id) if isinstance(ended, Event) else ended
                if record is None:
                    raise FlowNotFoundError(flow_id, self._store.address)
                rows = (await self._store.read_events([flow_id])).get(flow_id, ())
            except StoreUnavailableError:
                continue
            if (known := _last_ending(rows)) is not None:
                return outcome(flow_id, *known, read or _reader(record.definition))

    async def _ended(self, flow_id: str, until: float | None, looks_at_once: bool) -> "FlowRecord | AnyEvent | None":
        if self._closed:
            raise _closed_meanwhile()
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiters.setdefault(flow_id, set()).add(waiter)
        if looks_at_once:
            self._unseen.add(flow_id)
            self._someone_came.set()
        if self._watching is None:
            self._watching = loop.create_task(self._watch())
        try:
            if until is None:
                return await waiter
            async with asyncio.timeout_at(until):
                return await waiter
        finally:
            self._forget(flow_id, waiter)

    async def close(self) -> None:
        """Nobody looks any more, and whoever waits is told so."""
        self._closed = True
        self.fail(_closed_meanwhile())
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
                except StoreUnavailableError:
                    # It comes back, and whoever waits has time.
                    pass
                except Exception as error:  # noqa: BLE001 - for those who wait: nobody else would hear of it
                    self.fail(error)
                timer = loop.call_later(max(0.0, next_sweep - loop.time()), self._someone_came.set)
                await self._someone_came.wait()
                timer.cancel()
        finally:
            self._watching = None

    async def _look(self, ids: list[str]) -> None:
        if not ids:
            return
        try:
            found = await self._store.find_flows(ids)
        except (StoreUnavailableError, StoreUnusableError):
            raise
        except Exception as error:  # noqa: BLE001 - for those who wait
            if len(ids) == 1:
                self._answer(ids[0], error)
            for one in ids if len(ids) > 1 else ():
                # It is about one of them, and that is no matter of the others.
                await self._look([one])
            return
        for flow_id in ids:
            record = found.get(flow_id)
            if record is None or record.status in FINISHED:
                self._answer(flow_id, record)

    def _answer(self, flow_id: str, answer: FlowRecord | AnyEvent | Exception | None) -> None:
        for waiter in self._waiters.pop(flow_id, ()):
            if waiter.done():
                continue
            if isinstance(answer, Exception):
                waiter.set_exception(answer)
            else:
                waiter.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Nobody will ever know how they end: tell all who wait."""
        for flow_id in list(self._waiters):
            self._answer(flow_id, error)

    async def _status(self, flow_id: str) -> str:
        try:
            async with asyncio.timeout(ASKED_FOR):
                record = await self._store.find_flow(flow_id)
        except (StoreUnavailableError, TimeoutError):
            return "out of reach"
        return "missing" if record is None else record.status

    def _forget(self, flow_id: str, waiter: Waiter) -> None:
        waiters = self._waiters.get(flow_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[flow_id]


def _closed_meanwhile() -> RuntimeError:
    return RuntimeError("this app was closed; the flow goes on without it: open another app, and ask that one")


def _last_ending(rows: Sequence[EventRow]) -> tuple[AnyEvent, list[Line]] | None:
    """How the flow ended last, with the lines up to then; after that it may have been redriven."""
    for line in reversed(lines_of(rows[-1:])):
        # Only a failure needs what came before it.
        if isinstance(line.event, FlowCompleted | FlowCancelled):
            return line.event, []
    lines = lines_of(rows)
    while lines and not isinstance(lines[-1].event, FlowCompleted | FlowCancelled | FlowFailed):
        lines.pop()
    return (lines[-1].event, lines) if lines else None


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
    with contextlib.suppress(UnknownDefinitionError):
        if definition.startswith(WORKFLOW):
            return workflow_named(definition.removeprefix(WORKFLOW)).signature.read_result
        return action_named(definition.removeprefix(ACTION)).signature.read_result
    return msgspec.json.decode
