"""Load claimed flows into memory: begin new ones, replay the others, and isolate flows that may crash their worker."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

from redrive.determinism.dice import Dice
from redrive.errors import CrashLoopError, DeserializationError, UnknownDefinitionError
from redrive.flows.action import unknown_actions
from redrive.flows.events import FlowFailed
from redrive.flows.history import fold
from redrive.flows.messages import ManualResolution, Redrive
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.encoded_text import key_of
from redrive.stores.interface import Store
from redrive.stores.records import EventRow, FlowChange, FlowRecord, HeartbeatRow, Message
from redrive.telemetry.logs import log_flow
from redrive.worker.event_rows import lines_of
from redrive.worker.flow.flow_factory import FlowFactory
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.redrive import comes_too_late, may_be_reopened
from redrive.worker.flow_table import FlowTable
from redrive.worker.inbox import read
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.journal import Journal
from redrive.worker.maintenance.held_lease import HeldLease
from redrive.worker.recovery.chunked_replay import ChunkedReplay
from redrive.worker.recovery.evidence import NONE, SUSPECT, Evidence, read_evidence
from redrive.worker.recovery.replay import Replayer
from redrive.worker.store_retries import retry_until_available

BEGUN_AT_ONCE = 25
LOGS_AT_ONCE = 64
"""Flows whose logs are read together; fewer where the logs are long."""
READ_AT_ONCE = 8 * 2**20
"""Bytes of logs that are read together."""


class FlowLoader:
    def __init__(
        self,
        store: Store,
        held: HeldLease,
        now: Callable[[], float],
        dice: Dice,
        journal: Journal,
        flows: FlowTable,
        factory: FlowFactory,
        replayer: Replayer,
        chunked_replay: ChunkedReplay,
        faults: FaultHandler,
        leave: Callable[[FlowRecord, str], None],
    ) -> None:
        """leave: leaves a flow to workers that have the key which it needs."""
        self._store = store
        self._held = held
        self._lease = held.lease
        self._now = now
        self._dice = dice
        self._journal = journal
        self._flows = flows
        self._factory = factory
        self._replayer = replayer
        self._mid_replay = chunked_replay
        self._faults = faults
        self._leave = leave

    async def load(self, records: Sequence[FlowRecord]) -> None:
        """Begin new flows at once; read the logs and messages of the others, and continue them."""
        known: list[FlowRecord] = []
        suspects: list[FlowRecord] = []
        for number, record in enumerate(records, start=1):
            if number % BEGUN_AT_ONCE == 0 or len(record.input) > LARGE_JSON:
                # Commits that are done by now must not wait for all of them.
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
                self._check_lease()
            if (key := key_of(record.input)) is not None:
                self._leave(record, key)
                continue
            is_new = record.claims == 1 and record.messages_sent == record.messages_read
            if record.lost_owners >= SUSPECT or (record.blame and read_evidence(record.blame).is_against_code):
                suspects.append(record)
            elif not is_new or not self.begin(record):
                known.append(record)
        await self._continue_all(known)
        if suspects:
            # In any order: otherwise the first one would be alone whenever a worker is killed right after its start.
            suspects.sort(key=lambda _: self._dice())
            await self._continue_all(suspects, alone=True)

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

    def _check_lease(self) -> None:
        """Nothing is run, and nobody is accused or cleared, once another worker may own the flows."""
        if not self._held.may_call():
            raise self._held.lost()

    async def _accuse(self, record: FlowRecord, evidence: Evidence) -> None:
        """Note that this flow is loaded alone: if the worker is lost before the next note, the flow is to blame."""
        log_flow(
            logging.WARNING,
            record.id,
            "it may be taking its workers down and is loaded alone (workers lost with it in a row: %d)",
            record.lost_owners,
        )
        await retry_until_available(
            self._store, self._store.accuse, self._lease, record.id, evidence.lost_alone().write()
        )

    def _has_survived(self, run: FlowRun) -> None:
        """The worker lives though it has loaded the flow; the release of a flow says so itself."""
        record = run.log.record
        if (record.lost_owners or run.log.blame is not None) and not run.log.released:
            change = FlowChange(
                flow_id=record.id,
                status="running",
                wake_at=record.wake_at,
                messages_read=record.messages_read,
                blame=run.log.blame,
                version=run.log.version,
            )
            self._journal.batch.flows.append(change)
            self._journal.wake()

    async def _continue_all(self, records: Sequence[FlowRecord], alone: bool = False) -> None:
        """Continue flows from their logs, a few at a time: all logs together may not fit into memory.

        alone: note before each which flow it is, for the case that the flow takes this worker down.
        """
        messages: dict[str, list[Message]] = defaultdict(list)
        if any(record.messages_sent > record.messages_read for record in records):
            for message in await retry_until_available(self._store, self._store.read_inbox, self._lease):
                messages[message.flow_id].append(message)
        first, most = 0, 1
        while first < len(records):
            part = records[first : first + most]
            size = await self._continue_part(part, messages, alone)
            first += len(part)
            most = min(2 * most, LOGS_AT_ONCE) if 2 * size <= READ_AT_ONCE else max(1, most // 2)

    async def _continue_part(
        self, records: Sequence[FlowRecord], messages: dict[str, list[Message]], alone: bool
    ) -> int:
        """Returns the size of their logs in bytes."""
        store, ids = self._store, [record.id for record in records]
        logs = await retry_until_available(store, store.read_events, ids)
        heartbeats: dict[str, list[HeartbeatRow]] = defaultdict(list)
        for beat in await retry_until_available(store, store.read_heartbeats, ids):
            heartbeats[beat.flow_id].append(beat)
        size = 0
        for record in records:
            self._check_lease()
            rows, unread = logs.pop(record.id, []), messages[record.id]
            size += sum(len(row.body) for row in rows)
            bodies: chain[EventRow | Message | HeartbeatRow] = chain(rows, unread, heartbeats[record.id])
            if (key := next(filter(None, map(_key_of, bodies)), None)) is not None:
                self._leave(record, key)
                continue
            await self._close_dead_letter(record.id, rows, unread)
            evidence = read_evidence(record.blame)
            crash_loop = evidence.verdict()
            if alone and crash_loop is None:
                await self._accuse(record, evidence)
            run = self._create(record)
            if run is not None:
                # The last owner may have died after it read some: messages that are gone were read.
                run.log.messages_read = max(record.messages_read, record.messages_sent - len(unread))
                # Written with what the flow does now: if the worker is lost instead, nothing of it is.
                run.log.change_blame((NONE if crash_loop else evidence.after_loading()).write())
                await self._continue(run, rows, heartbeats[record.id], unread, evidence, crash_loop)
                self._has_survived(run)
            # The lease keeper and others must not wait for all of them.
            await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        if alone:
            self._check_lease()
            await retry_until_available(store, store.accuse, self._lease, None)
        return size

    async def _continue(
        self,
        run: FlowRun,
        rows: list[EventRow],
        heartbeats: list[HeartbeatRow],
        messages: list[Message],
        evidence: Evidence,
        crash_loop: CrashLoopError | None,
    ) -> None:
        try:
            pieces = self._replayer.replay(run, rows, heartbeats, messages, evidence=evidence, crash_loop=crash_loop)
            await self._mid_replay.finish(run, pieces)
        except asyncio.CancelledError:
            self._flows.take_out(run)
            run.driver.discard()
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
            self._faults.engine_failed(run, error, messages)

    async def _close_dead_letter(self, flow_id: str, rows: list[EventRow], messages: list[Message]) -> None:
        """Close the dead letter of a failed flow that an unread message is about to reopen."""
        resolutions = [said for said in map(read, messages) if isinstance(said, ManualResolution | Redrive)]
        with contextlib.suppress(DeserializationError):
            # A log that cannot be read is parked later.
            last = lines_of(rows[-1:])[-1].event if resolutions and rows else None
            if isinstance(last, FlowFailed):
                items = fold(lines_of(rows)).items
                if not may_be_reopened(last, items):
                    return
                for said in [one for one in resolutions if not comes_too_late(one, items)][:1]:
                    close = self._store.close_dead_letters
                    await retry_until_available(
                        self._store, close, [flow_id], "redriven", said.by, said.why, self._now(), None
                    )


def _key_of(row: EventRow | Message | HeartbeatRow) -> str | None:
    """Return the id of the key that this process lacks to decode the row."""
    return key_of(row.details if isinstance(row, HeartbeatRow) else row.body)
