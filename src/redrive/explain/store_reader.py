"""Read from a store what an explanation needs. The only I/O in this package."""

import msgspec

from redrive.determinism.off_loop import off_loop
from redrive.explain.children import MOST_COUNTED, with_children
from redrive.explain.encoded_flow import explain_encoded
from redrive.explain.explain_flow import explain_flow
from redrive.explain.explanation import Explanation
from redrive.explain.hidden_payloads import hidden_text, hide_lines
from redrive.explain.text import MOST_WAITS
from redrive.explain.worker_eligibility import DOCTOR, ENDER
from redrive.flows.chunks import LONG_LOG
from redrive.flows.events import Line
from redrive.flows.stored_inputs import start_arguments
from redrive.stores.flow_control import NOT_USED
from redrive.stores.interface import Store
from redrive.stores.leases import WorkerRecord
from redrive.stores.records import NEVER_READS_AGAIN, DeadQuery, FlowRecord, RetryQuery


async def explain_from_store(
    store: Store,
    record: FlowRecord,
    lines: list[Line],
    now: float,
    payloads: bool = True,
    ahead: bool = False,
    most: int | None = None,
    current_run: int | None = None,
) -> Explanation:
    """Explain a flow, given its record and its log; with or without what it works with, and what lies ahead.

    current_run: the number of its current run, if record and log are those of an earlier one.
    most: leave out the middle of what there is more of.
    """
    letters = await store.list_dead_letters(DeadQuery(flow_ids=(record.id,), state=None))
    alive = await live_workers(store)
    queues = await store.list_queues(now, record.queue)
    use = NOT_USED
    if record.status == "ready" and any(one.rate or one.key_rate or one.per_key for one in queues):
        use = await store.queue_use(record.queue, record.concurrency_key)
    if record.messages_sent > record.messages_read and record.status not in NEVER_READS_AGAIN:
        # The owner may have read some messages since the record was written.
        read = record.messages_sent - await store.count_unread(record.id)
        record = msgspec.structs.replace(record, messages_read=read)
    letter = letters[0] if letters else None
    shown = lines if payloads else await off_loop(len(lines) > LONG_LOG, hide_lines, lines)
    # To foresee attempts takes longer than to tell of them.
    is_long = ahead or len(lines) > LONG_LOG
    explained = await off_loop(
        is_long, explain_flow, record, shown, letter, alive, queues, now, ahead, most, use, current_run
    )
    shown_children = [wait.flow for wait in explained.waits_for[:MOST_WAITS] if wait.flow]
    counts = await store.count_children([record.id, *shown_children], MOST_COUNTED)
    explained = with_children(explained, counts)
    if payloads:
        return explained
    return msgspec.structs.replace(explained, input=hidden_text(start_arguments(record.definition, record.input)))


async def explain_without_key(store: Store, record: FlowRecord, key: str, now: float) -> Explanation:
    """Explain a flow whose payloads are encoded with a key that is not at hand."""
    rows = (await store.read_events([record.id]))[record.id]
    letters = await store.list_dead_letters(DeadQuery(flow_ids=(record.id,), state=None))
    retries = await store.list_retries(RetryQuery(flow_id=record.id))
    return explain_encoded(record, key, rows, retries, letters[0] if letters else None, now)


async def all_workers(store: Store) -> list[WorkerRecord]:
    """List the workers that hold a lease, and those whose lease has expired."""
    return [worker for worker in await store.list_workers() if worker.name not in (DOCTOR, ENDER)]


async def live_workers(store: Store) -> list[WorkerRecord]:
    """List the workers whose lease is valid."""
    return [worker for worker in await all_workers(store) if worker.alive]
