"""The part of a commit that reaches other flows: it adds children, and sends messages."""

from functools import cache
from typing import Any

from redrive.stores.caller_transaction import with_dollars
from redrive.stores.postgres.add_flows import adding
from redrive.stores.postgres.columns import rows_of_json
from redrive.stores.postgres.commit_statement import rows_as_json
from redrive.stores.postgres.identifiers import channel_of, literal
from redrive.stores.records import Batch
from redrive.stores.sent import Sent

_SENT = ("flow_id", "at", "body", "reopens", "place")

# All recipients are locked in one order, so that two workers which send to the same flows wait for each other.
# They are looked up by the index for each message: to join ten thousand messages with as many flows takes seconds.
_SEND = """
WITH sent AS MATERIALIZED (SELECT * FROM {rows}),
addressed AS MATERIALIZED (
    SELECT sent.*, flows.status FROM sent JOIN flows ON flows.id = sent.flow_id
    ORDER BY flows.id, sent.place FOR UPDATE OF flows
),
accepted AS MATERIALIZED (
    SELECT * FROM addressed
    WHERE status NOT IN ('completed', 'failed', 'cancelled') OR reopens AND status = 'failed'
),
delivered AS (
    UPDATE flows SET
        messages_sent = messages_sent + new.messages,
        status = CASE WHEN flows.status = 'running' THEN 'running' ELSE 'ready' END,
        wake_at = CASE WHEN flows.status IN ('running', 'ready') THEN flows.wake_at ELSE to_timestamp(new.at) END,
        finished_at = NULL
    FROM (SELECT flow_id, count(*) AS messages, max(at) AS at FROM accepted GROUP BY flow_id) AS new
    WHERE flows.id = new.flow_id
),
stored AS (
    INSERT INTO messages (flow_id, at, body)
    SELECT flow_id, to_timestamp(at), body::json FROM accepted ORDER BY place
)
SELECT count(pg_notify({channel}, '')) FROM (SELECT FROM accepted LIMIT 1) AS one
"""


@cache
def _statements(schema: str) -> tuple[str, str]:
    """Return two statements: one adds children and returns the ids of those that it added, the other sends."""
    rows = rows_of_json("$1", _SENT, "s")
    return with_dollars(adding(schema)), _SEND.format(rows=rows, channel=literal(channel_of(schema)))


async def write_children(connection: Any, schema: str, batch: Batch) -> None:
    """Add the batch's children and send its messages, in the transaction that wrote the rest of the batch."""
    add, send = _statements(schema)
    refusals: list[Sent] = []
    if batch.children:
        rows = await connection.fetch(add, rows_as_json(flow for flow, _ in batch.children))
        added = {row[0] for row in rows}
        refusals = [
            Sent(flow.id, flow.parent or "", flow.created_at, refusal)
            for flow, refusal in batch.children
            if flow.id not in added
        ]
    if sends := [*refusals, *batch.sends]:
        await connection.execute(
            send,
            rows_as_json(
                {"flow_id": one.flow_id, "at": one.at, "body": one.body, "reopens": one.reopens, "place": place}
                for place, one in enumerate(sends)
            ),
        )
