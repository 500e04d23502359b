"""Waits for flows to end: the worker of this process reports its own, and the store tells of all others."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from redrive.errors import (
    FlowCancelledError,
    FlowNotFoundError,
    StoreUnavailableError,
    StoreUnusableError,
    UnknownDefinitionError,
)
from redrive.flows.action import action_named
from redrive.flows.errors.item_error import item_error
from redrive.flows.errors.stored_error import rebuild_error
from redrive.flows.event import Event
from redrive.flows.events import AnyEvent, FlowCancelled, FlowCompleted, FlowFailed, Line
from redrive.flows.history import fold
from redrive.flows.registry import ACTION, WORKFLOW
from redrive.flows.values.json_form import is_storable
from redrive.flows.workflows.workflow import workflow_named
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, EventRow, FlowRecord
from redrive.worker.event_rows import lines_of

SWEEP = 0.5
"""Seconds between polls of the store, which may fail to tell that a flow has ended."""
REST = 4.0
"""How many times as long as a poll of all flows took the next one waits, where the store does not tell which ended."""
READ_AT_ONCE = 50
STATUS_TIMEOUT = 1.0
"""Seconds that the store has to answer with the status of a flow whose result did not arrive in time."""

ReadResult = Callable[[str], Any]
Ended = tuple[FlowRecord, Sequence[EventRow]] | AnyEvent | None
"""A flow with its log, or the event that ended it in this process; None where there is no such flow."""
Waiter = asyncio.Future[Ended]


class Results:
    """Lets all callers of this process that wait for results share one poll of the store."""

    def __init__(self, store: Store, runs_here: Callable[[str], bool]) -> None:
        """`runs_here` tells whether this process runs a flow, and so reports its end: it need not be polled at once."""
        self._store = store
        self._runs_here = runs_here
        self._waiters: dict[str, set[Waiter]] = {}
        self._unseen: set[str] = set()
        """Flows to look at now."""
        self._any_ended = False
        """Whether any of the others may have ended, too."""
        self._stop_listening: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._closed = False

    def flow_ended(self, flow_id: str, ending: AnyEvent) -> None:
        """Wake the callers that wait for a flow, which ended in this process."""
        self._wake(flow_id, ending)

    async def wait(self, flow_id: str, read: ReadResult | None, timeout: float | None) -> Any:
        """Return the flow's result or raise its error; TimeoutError when it has not ended in time."""
        if not is_storable(flow_id):
            # The store would refuse the whole poll, and with it the callers that wait for other flows.
            raise FlowNotFoundError(flow_id, self._store.address)
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        polls_at_once = not self._runs_here(flow_id)
        while True:
            try:
                ended = await self._ended(flow_id, until, polls_at_once)
            except TimeoutError:
                status = await self._status(flow_id)
                raise TimeoutError(f"flow {flow_id} is still {status} after {timeout:g} s") from None
            if isinstance(ended, FlowCompleted) and read is not None:
                return read(bytes(ended.result).decode())
            # Where its log does not show the end yet, or cannot be read now, the next poll looks again.
            polls_at_once = False
            try:
                if isinstance(ended, Event):
                    ended = (await self._read([flow_id], await self._store.find_flows([flow_id]))).get(flow_id)
            except StoreUnavailableError:
                continue
            if ended is None:
                raise FlowNotFoundError(flow_id, self._store.address)
            record, rows = ended
            if record.status not in FINISHED:
                # Redriven since: the store may have told of the end before the worker of this process did.
                continue
            if (known := _last_ending(rows)) is not None:
                return outcome(flow_id, *known, read or _reader(record.definition))

    async def _ended(self, flow_id: str, until: float | None, polls_at_once: bool) -> Ended:
        if self._closed:
            raise _app_closed()
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiters.setdefault(flow_id, set()).add(waiter)
        if polls_at_once:
            self._unseen.add(flow_id)
            self._woken.set()
        if self._watching is None:
            self._watching = loop.create_task(self._watch())
        try:
            if until is None:
                return await waiter
            async with asyncio.timeout_at(until):
                return await waiter
        finally:
            self._remove(flow_id, waiter)

    async def close(self) -> None:
        """Stop polling, and fail the callers that still wait."""
        self._closed = True
        self.fail(_app_closed())
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _listen(self) -> None:
        """Have the store tell what happens elsewhere, unless all flows that callers wait for run here."""
        if self._stop_listening is None and not all(map(self._runs_here, self._waiters)):
            self._stop_listening = self._store.on_ended(self._flows_ended)
            # Some may have ended between the last look and now.
            self._flows_ended(None)

    def _flows_ended(self, flow_ids: Sequence[str] | None) -> None:
        """The store tells that these flows have ended, or that any may have."""
        if flow_ids is None:
            self._any_ended = True
        elif mine := self._waiters.keys() & flow_ids:
            self._unseen |= mine
        else:
            return
        self._woken.set()

    async def _watch(self) -> None:
        """Poll the flows that callers wait for: when they may have ended, and all of them once per sweep."""
        loop = asyncio.get_running_loop()
        try:
            next_sweep, next_look = loop.time() + SWEEP, 0.0
            while self._waiters:
                self._woken.clear()
                began = loop.time()
                looks_at_all = began >= next_sweep or (self._any_ended and began >= next_look)
                if looks_at_all:
                    ids, self._any_ended = list(self._waiters), False
                    next_sweep = began + SWEEP
                else:
                    ids = list(self._unseen)
                self._unseen.clear()
                try:
                    await self._poll(ids)
                except StoreUnavailableError:
                    # The store may come back; callers wait until their own timeout.
                    pass
                except Exception as error:  # noqa: BLE001 - raised in the callers that wait
                    self.fail(error)
                self._listen()
                now = loop.time()
                if looks_at_all:
                    next_look = now + REST * (now - began)
                await self._until(min(next_sweep, next_look) if self._any_ended else next_sweep)
        finally:
            self._watching = None
            if self._stop_listening is not None:
                self._stop_listening()
                self._stop_listening = None

    async def _until(self, when: float) -> None:
        """Wait until then, or until there is something to look at."""
        loop = asyncio.get_running_loop()
        timer = loop.call_at(when, self._woken.set)
        await self._woken.wait()
        timer.cancel()

    async def _poll(self, ids: list[str]) -> None:
        if not ids:
            return
        try:
            found = await self._store.find_flows(ids)
        except (StoreUnavailableError, StoreUnusableError):
            raise
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait
            if len(ids) == 1:
                self._wake(ids[0], error)
            for one in ids if len(ids) > 1 else ():
                # The store refuses one of the ids: poll them one by one, so that only its callers get the error.
                await self._poll([one])
            return
        finished = {flow_id: record for flow_id, record in found.items() if record.status in FINISHED}
        for flow_id in ids:
            if flow_id not in found:
                self._wake(flow_id, None)
        left = list(finished)
        while left:
            await self._deliver(left[:READ_AT_ONCE], finished)
            del left[:READ_AT_ONCE]

    async def _deliver(self, ids: list[str], finished: Mapping[str, FlowRecord]) -> None:
        """Hand the logs of flows that have ended to the callers that wait for them."""
        try:
            for flow_id, ended in (await self._read(ids, finished)).items():
                self._wake(flow_id, ended)
        except (StoreUnavailableError, StoreUnusableError):
            raise
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait
            if len(ids) == 1:
                self._wake(ids[0], error)
            for one in ids if len(ids) > 1 else ():
                # As with the poll: only the callers of the flow whose log cannot be read get the error.
                await self._deliver([one], finished)

    async def _read(
        self, ids: Sequence[str], found: Mapping[str, FlowRecord]
    ) -> dict[str, tuple[FlowRecord, Sequence[EventRow]]]:
        """Return those of the flows that are there, each with its log."""
        logs = await self._store.read_events(ids)
        return {one: (found[one], logs.get(one, ())) for one in ids if one in found}

    def _wake(self, flow_id: str, answer: Ended | Exception) -> None:
        for waiter in self._waiters.pop(flow_id, ()):
            if waiter.done():
                continue
            if isinstance(answer, Exception):
                waiter.set_exception(answer)
            else:
                waiter.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Raise the error in all callers that wait."""
        for flow_id in list(self._waiters):
            self._wake(flow_id, error)

    async def _status(self, flow_id: str) -> str:
        try:
            async with asyncio.timeout(STATUS_TIMEOUT):
                record = await self._store.find_flow(flow_id)
        except (StoreUnavailableError, TimeoutError):
            return "in an unknown state (the store did not answer)"
        return "missing" if record is None else record.status

    def _remove(self, flow_id: str, waiter: Waiter) -> None:
        waiters = self._waiters.get(flow_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[flow_id]


def _app_closed() -> RuntimeError:
    return RuntimeError("this app was closed; the flow continues without it: open another app and wait there")


def _last_ending(rows: Sequence[EventRow]) -> tuple[AnyEvent, list[Line]] | None:
    """Return the event that ended the flow last, and the log up to it; the flow may have been redriven since."""
    for line in reversed(lines_of(rows[-1:])):
        # Only a failure needs the lines before it.
        if isinstance(line.event, FlowCompleted | FlowCancelled):
            return line.event, []
    lines = lines_of(rows)
    while lines and not isinstance(lines[-1].event, FlowCompleted | FlowCancelled | FlowFailed):
        lines.pop()
    return (lines[-1].event, lines) if lines else None


def outcome(flow_id: str, ending: AnyEvent, lines: list[Line], read: ReadResult) -> Any:
    """Return the result of an ended flow, or raise its error with the report of its attempts."""
    if isinstance(ending, FlowCompleted):
        return read(bytes(ending.result).decode())
    if isinstance(ending, FlowCancelled):
        raise FlowCancelledError(flow_id, ending.why)
    assert isinstance(ending, FlowFailed)  # noqa: S101 - no other event ends a flow
    if ending.item is not None:
        item = fold(lines).items[ending.item]
        last = item.failures[-1].event if item.failures else None
        if last is not None and (last.error.type, last.error.message) == (ending.error.type, ending.error.message):
            # The item's own error, not one that the flow's code raised instead: it gets the report of the attempts.
            error = item_error(item, last)
            for note in ending.error.notes:
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
            raise error
    raise rebuild_error(ending.error)


def _reader(definition: str) -> ReadResult:
    """Return the function that reads a result: by its type hint where the definition is known, else as plain data."""
    with contextlib.suppress(UnknownDefinitionError):
        if definition.startswith(WORKFLOW):
            return workflow_named(definition.removeprefix(WORKFLOW)).signature.read_result
        return action_named(definition.removeprefix(ACTION)).signature.read_result
    return msgspec.json.decode
