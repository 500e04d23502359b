"""What `explain` needs of a store."""

import msgspec

from redrive.explain.explanation import Explanation
from redrive.explain.timeline import explain
from redrive.explain.worker_eligibility import workers_in
from redrive.flows.events import Line
from redrive.stores.interface import Store
from redrive.stores.records import DeadQuery, FlowRecord


async def explained(store: Store, record: FlowRecord, lines: list[Line], now: float) -> Explanation:
    letters = await store.list_dead_letters(DeadQuery(flow_ids=(record.id,), state=None))
    alive = [one for one in await workers_in(store) if one.alive]
    queues = await store.list_queues()
    if record.messages_sent > record.messages_read:
        # Its owner may have read some of it since.
        record = msgspec.structs.replace(
            record, messages_read=record.messages_sent - await store.count_unread(record.id)
        )
    return explain(record, lines, letters[0] if letters else None, alive, queues, now)
