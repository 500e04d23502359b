"""Load claimed flows into memory: begin new ones, replay the others, and isolate flows that may crash their worker."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from redrive.errors import CrashLoopError, DeserializationError, UnknownDefinitionError
from redrive.flows.action import unknown_actions
from redrive.flows.history import fold
from redrive.flows.messages import ManualResolution
from redrive.stores.interface import Store
from redrive.stores.records import EventRow, FlowChange, FlowRecord, HeartbeatRow, Lease, Message
from redrive.worker.event_rows import lines_of
from redrive.worker.flow.flow_factory import FlowFactory
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.redrive import comes_too_late, may_be_reopened
from redrive.worker.flow_table import FlowTable
from redrive.worker.inbox import read
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.journal import Journal
from redrive.worker.recovery.chunked_replay import ChunkedReplay
from redrive.worker.recovery.replay import Replayer
from redrive.worker.store_retries import retry_until_available

log = logging.getLogger("redrive")

BEGUN_AT_ONCE = 25
LOGS_AT_ONCE = 64
"""Flows whose logs are read together; fewer where the logs are long."""
READ_AT_ONCE = 8 * 2**20
"""Bytes of logs that are read together."""
SUSPECT = 2
"""A flow that lost this many owners in a row is loaded alone: its own code may be killing them."""
ALONE = 1000
"""Stored as the number of lost owners while a flow is loaded alone: if the worker is lost now, the flow is to blame."""


class FlowLoader:
    def __init__(
        self,
        store: Store,
        lease: Lease,
        now: Callable[[], float],
        journal: Journal,
        flows: FlowTable,
        factory: FlowFactory,
        replayer: Replayer,
        chunked_replay: ChunkedReplay,
        faults: FaultHandler,
    ) -> None:
        self._store = store
        self._lease = lease
        self._now = now
        self._journal = journal
        self._flows = flows
        self._factory = factory
        self._replayer = replayer
        self._mid_replay = chunked_replay
        self._faults = faults

    async def load(self, records: Sequence[FlowRecord]) -> None:
        """Begin new flows at once; read the logs and messages of the others, and continue them."""
        known: list[FlowRecord] = []
        suspects: list[FlowRecord] = []
        for number, record in enumerate(records, start=1):
            if number % BEGUN_AT_ONCE == 0:
                # Commits that are done by now must not wait for all of them.
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            is_new = record.claims == 1 and record.messages_sent == record.messages_read
            if record.lost_owners >= SUSPECT:
                suspects.append(record)
            elif not is_new or not self.begin(record):
                known.append(record)
        await self._continue_all(known)
        for record in known:
            if record.lost_owners:
                self._clear_lost_owners(record)
        for record in suspects:
            await self._load_alone(record)

    def begin(self, record: FlowRecord) -> bool:
        """Begin a flow that has no log yet; False when this process lacks its definition or an action it needs."""
        run = self._create(record)
        if run is None:
            return False
        try:
            if (needs := run.driver.required_actions()) and unknown_actions(needs):
                self._flows.remove(run)
                return False
            run.begin()
        except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
            self._faults.engine_failed(run, error)
        return True

    def _create(self, record: FlowRecord) -> FlowRun | None:
        try:
            run = self._factory.create(record)
        except UnknownDefinitionError:
            # Unregistered since it was claimed; a worker that knows it takes it when this lease ends.
            return None
        self._flows.add(run)
        return run

    async def _load_alone(self, record: FlowRecord) -> None:
        """Load nothing else until it is known, durably, whether this flow takes its worker down."""
        crash_loop = None
        if record.lost_owners > ALONE:
            crash_loop = CrashLoopError(
                "several workers in a row died after loading this flow, the last one while it had loaded nothing "
                "else: the flow's code kills its process, or blocks it for longer than a lease"
            )
        else:
            lost = record.lost_owners
            log.warning("flow %s: %d workers in a row were lost with it; it is loaded alone", record.id, lost)
            self._store_lost_owners(record, ALONE)
            await self._journal.written()
        await self._continue_all([record], crash_loop)
        await self._journal.written()
        self._clear_lost_owners(record)

    def _clear_lost_owners(self, record: FlowRecord) -> None:
        """The flow has survived its load; a flow that was released meanwhile has no lost owners anyway."""
        run = self._flows.by_id.get(record.id)
        if run is not None and not run.log.released:
            self._store_lost_owners(record, 0)

    def _store_lost_owners(self, record: FlowRecord, lost: int) -> None:
        change = FlowChange(
            flow_id=record.id,
            status="running",
            wake_at=record.wake_at,
            messages_read=record.messages_read,
            lost_owners=lost,
        )
        self._journal.batch.flows.append(change)
        self._journal.wake()

    async def _continue_all(self, records: Sequence[FlowRecord], crash_loop: CrashLoopError | None = None) -> None:
        """Continue flows from their logs, a few at a time: all logs together may not fit into memory."""
        messages: dict[str, list[Message]] = defaultdict(list)
        if any(record.messages_sent > record.messages_read for record in records):
            for message in await retry_until_available(self._store, self._store.read_inbox, self._lease):
                messages[message.flow_id].append(message)
        first, most = 0, 1
        while first < len(records):
            part = records[first : first + most]
            size = await self._continue_part(part, messages, crash_loop)
            first += len(part)
            most = min(2 * most, LOGS_AT_ONCE) if 2 * size <= READ_AT_ONCE else max(1, most // 2)

    async def _continue_part(
        self, records: Sequence[FlowRecord], messages: dict[str, list[Message]], crash_loop: CrashLoopError | None
    ) -> int:
        """Returns the size of their logs in bytes."""
        store, ids = self._store, [record.id for record in records]
        logs = await retry_until_available(store, store.read_events, ids)
        heartbeats: dict[str, list[HeartbeatRow]] = defaultdict(list)
        for beat in await retry_until_available(store, store.read_heartbeats, ids):
            heartbeats[beat.flow_id].append(beat)
        size = 0
        for record in records:
            rows, unread = logs.pop(record.id, []), messages[record.id]
            size += sum(len(row.body) for row in rows)
            await self._close_dead_letter(record.id, rows, unread)
            run = self._create(record)
            if run is not None:
                # The last owner may have died after it read some: messages that are gone were read.
                run.log.messages_read = max(record.messages_read, record.messages_sent - len(unread))
                await self._continue(run, rows, heartbeats[record.id], unread, crash_loop)
            # The lease keeper and others must not wait for all of them.
            await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        return size

    async def _continue(
        self,
        run: FlowRun,
        rows: list[EventRow],
        heartbeats: list[HeartbeatRow],
        messages: list[Message],
        crash_loop: CrashLoopError | None,
    ) -> None:
        try:
            pieces = self._replayer.replay(run, rows, heartbeats, messages, crash_loop=crash_loop)
            await self._mid_replay.finish(run, pieces)
        except asyncio.CancelledError:
            self._flows.take_out(run)
            run.driver.discard()
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
            self._faults.engine_failed(run, error, messages)

    async def _close_dead_letter(self, flow_id: str, rows: list[EventRow], messages: list[Message]) -> None:
        """Close the dead letter of a failed flow that an unread manual resolution is about to reopen."""
        resolutions = [said for said in map(read, messages) if isinstance(said, ManualResolution)]
        with contextlib.suppress(DeserializationError):
            # A log that cannot be read is parked later.
            if resolutions and rows and may_be_reopened(lines_of(rows[-1:])[-1].event):
                items = fold(lines_of(rows)).items
                for said in [one for one in resolutions if not comes_too_late(one, items)][:1]:
                    close = self._store.close_dead_letters
                    await retry_until_available(
                        self._store, close, [flow_id], "redriven", said.by, said.why, self._now(), None
                    )
