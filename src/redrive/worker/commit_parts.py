"""Split a transaction by flow, so that rows which the store refuses affect one flow only."""

from collections.abc import Iterator
from typing import Any

from redrive.stores.records import Batch


def flows_in(batch: Batch) -> list[str]:
    """The ids of the flows that a batch has rows of, in order."""
    rows: tuple[Any, ...] = (*batch.events, *batch.flows, *batch.retries, *batch.heartbeats, *batch.dead)
    born = (flow.id for flow in batch.new_flows)
    ids = (
        *born,
        *(row.flow_id for row in rows),
        *(flow_id for flow_id, _ in batch.retries_done),
        *batch.messages_read.values(),
        *(flow.parent or "" for flow, _ in batch.children),
        *(sent.by for sent in batch.sends),
    )
    return list(dict.fromkeys(ids))


def part_of(batch: Batch, flow_id: str, number: int) -> Batch:
    """The rows of one flow, as a batch of their own."""
    read = {message: reader for message, reader in batch.messages_read.items() if reader == flow_id}
    return Batch(
        number=number,
        new_flows=[flow for flow in batch.new_flows if flow.id == flow_id],
        events=[row for row in batch.events if row.flow_id == flow_id],
        flows=[change for change in batch.flows if change.flow_id == flow_id],
        retries=[row for row in batch.retries if row.flow_id == flow_id],
        retries_done=[done for done in batch.retries_done if done[0] == flow_id],
        messages_read=read,
        dead=[letter for letter in batch.dead if letter.flow_id == flow_id],
        heartbeats=[row for row in batch.heartbeats if row.flow_id == flow_id],
        children=[child for child in batch.children if child[0].parent == flow_id],
        sends=[sent for sent in batch.sends if sent.by == flow_id],
    )


def parts_of(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """One batch per flow; their numbers count on from the batch's own."""
    for number, flow_id in enumerate(flows_in(batch), start=batch.number):
        yield flow_id, part_of(batch, flow_id, number)
