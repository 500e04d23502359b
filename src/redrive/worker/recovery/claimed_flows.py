"""Take claimed flows into memory: new ones begin, others go on from their log, suspects one at a time."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.errors import CrashLoopError, DeserializationError, UnknownDefinitionError
from redrive.flows.driver import driver_for
from redrive.flows.history import fold
from redrive.flows.messages import ByHand
from redrive.flows.registry import unknown_actions
from redrive.stores.records import EventRow, FlowChange, FlowRecord, HeartbeatRow, Message
from redrive.worker.flow_run import FlowRun
from redrive.worker.inbox import read
from redrive.worker.journal import patiently
from redrive.worker.log_lines import lines_of
from redrive.worker.recovery.replay import going_on
from redrive.worker.redrive import comes_too_late, may_be_reopened

if TYPE_CHECKING:
    from redrive.worker.worker import Worker

log = logging.getLogger("redrive")

BEGUN_AT_ONCE = 25
LOGS_AT_ONCE = 64
"""Flows whose logs are read together; fewer, where they are long:"""
READ_AT_ONCE = 8 * 2**20
"""bytes that may be read of them."""
SUSPECT = 2
"""Owners lost in a row with a flow: from then on it is taken up alone, since its own code may be what ends them."""
ALONE = 1000
"""Written in place of their number while a flow is taken up alone: if its owner is lost then, it is known why."""


async def adopt(worker: "Worker", records: Sequence[FlowRecord]) -> None:
    """Begin the new ones at once; read the logs and the mail of the others, and go on."""
    known: list[FlowRecord] = []
    suspects: list[FlowRecord] = []
    for number, record in enumerate(records, start=1):
        if number % BEGUN_AT_ONCE == 0:
            # What is durable meanwhile must not wait for all of them.
            await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        is_new = record.claims == 1 and record.mail == record.mail_read
        if record.lost >= SUSPECT:
            suspects.append(record)
        elif not is_new or not begin_new(worker, record):
            known.append(record)
    await _go_on_with(worker, known)
    for record in known:
        if record.lost:
            _note_taken_up(worker, record)
    for record in suspects:
        await _take_up_alone(worker, record)


def begin_new(worker: "Worker", record: FlowRecord) -> bool:
    """Begin a flow that has no log yet; False when its code, or an action that it needs, is not known here."""
    run = _enter(worker, record)
    if run is None:
        return False
    try:
        if (needs := run.driver.needs()) and unknown_actions(needs):
            worker.forget(run)
            return False
        run.begin()
    except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
        worker.set_aside(run, error)
    return True


async def _take_up_alone(worker: "Worker", record: FlowRecord) -> None:
    """Nothing else is taken up until it is known, durably, whether this one takes its worker down."""
    crash_loop = None
    if record.lost > ALONE:
        crash_loop = CrashLoopError(
            "one worker after the other was lost when it took the flow up, the last one when it took up nothing else: "
            "the code of the flow ends the process that runs it, or holds it up for longer than a lease"
        )
    else:
        log.warning("flow %s: %d workers in a row were lost with it; it is taken up alone", record.id, record.lost)
        _note_lost(worker, record, ALONE)
        await worker.journal.written()
    await _go_on_with(worker, [record], crash_loop)
    await worker.journal.written()
    _note_taken_up(worker, record)


def _note_taken_up(worker: "Worker", record: FlowRecord) -> None:
    """None of its owners is lost any more. Where it was given back, that says so too."""
    if worker.has(record.id):
        _note_lost(worker, record, 0)


def _note_lost(worker: "Worker", record: FlowRecord, lost: int) -> None:
    change = FlowChange(
        flow_id=record.id, status="running", wake_at=record.wake_at, mail_read=record.mail_read, lost=lost
    )
    worker.journal.batch.flows.append(change)
    worker.journal.kick()


async def _go_on_with(
    worker: "Worker", records: Sequence[FlowRecord], crash_loop: CrashLoopError | None = None
) -> None:
    """A few at a time, as long as they are: all logs together may be more than memory holds."""
    mail: dict[str, list[Message]] = defaultdict(list)
    if any(record.mail > record.mail_read for record in records):
        assert worker.lease is not None  # noqa: S101 - it claimed them
        for message in await patiently(worker.store, worker.store.read_mail, worker.lease):
            mail[message.flow_id].append(message)
    first, most = 0, 1
    while first < len(records):
        part = records[first : first + most]
        size = await _go_on_with_part(worker, part, mail, crash_loop)
        first += len(part)
        most = min(2 * most, LOGS_AT_ONCE) if 2 * size <= READ_AT_ONCE else max(1, most // 2)


async def _go_on_with_part(
    worker: "Worker", records: Sequence[FlowRecord], mail: dict[str, list[Message]], crash_loop: CrashLoopError | None
) -> int:
    """How many bytes their logs have."""
    ids = [record.id for record in records]
    logs = await patiently(worker.store, worker.store.read_events, ids)
    heartbeats: dict[str, list[HeartbeatRow]] = defaultdict(list)
    for beat in await patiently(worker.store, worker.store.read_heartbeats, ids):
        heartbeats[beat.flow_id].append(beat)
    size = 0
    for record in records:
        rows = logs.pop(record.id, [])
        size += sum(len(row.body) for row in rows)
        await _settle_letter(worker, record.id, rows, mail[record.id])
        run = _enter(worker, record)
        if run is not None:
            # The last owner may have died after it read some: what is no longer there was read.
            run.mail_read = max(record.mail_read, record.mail - len(mail[record.id]))
            await _bring_up(worker, run, rows, heartbeats[record.id], mail[record.id], crash_loop)
        # Whoever waits for the loop, the lease among them, must not wait for all of them.
        await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
    return size


async def _bring_up(
    worker: "Worker",
    run: FlowRun,
    rows: list[EventRow],
    heartbeats: list[HeartbeatRow],
    mail: list[Message],
    crash_loop: CrashLoopError | None,
) -> None:
    try:
        await worker.half_replayed.bring_up(run, going_on(run, rows, heartbeats, mail, crash_loop=crash_loop))
    except asyncio.CancelledError:
        worker.runs.pop(run.id, None)
        run.driver.discard()
        raise
    except Exception as error:  # noqa: BLE001 - one flow's trouble is not another's
        worker.set_aside(run, error, mail)


async def _settle_letter(worker: "Worker", flow_id: str, rows: list[EventRow], mail: list[Message]) -> None:
    """Of a flow that failed before it read what was said about one of its steps: it is no dead letter any more."""
    words = [one for one in map(read, mail) if isinstance(one, ByHand)]
    with contextlib.suppress(DeserializationError):
        # One that cannot be read is parked later.
        if words and rows and may_be_reopened(lines_of(rows[-1:])[-1].event):
            items = fold(lines_of(rows)).items
            for said in [one for one in words if not comes_too_late(one, items)][:1]:
                store, now = worker.store, worker.now()
                await patiently(store, store.settle_dead, [flow_id], "redriven", said.by, said.why, now, None)


def _enter(worker: "Worker", record: FlowRecord) -> FlowRun | None:
    try:
        run = FlowRun(worker, record, driver_for(record.definition, record.id, record.input))
    except UnknownDefinitionError:
        # Forgotten since it was asked for; whoever knows it takes it at the end of this lease.
        return None
    before = worker.runs.get(record.id)
    if before is not None:
        # Given back, and claimed again before it was forgotten.
        before.driver.discard()
    worker.runs[record.id] = run
    return run
