"""Select the flows and dead letters of a memory store that match a query."""

from collections.abc import Iterator

from redrive.flows.tags import has_tags
from redrive.stores.memory.data import MemoryData
from redrive.stores.records import DeadLetter, DeadQuery, FlowQuery, FlowRecord


def matching_flows(data: MemoryData, query: FlowQuery) -> Iterator[FlowRecord]:
    """Yield all of them, newest first."""
    # Ids sort by time. The flow that ended the last page may be gone.
    newest_first = sorted(data.flows.values(), key=lambda flow: flow.id, reverse=True)
    involved = _involved(data, query)
    found = None if query.text is None else _with_message(data, query.text.lower()) if query.in_messages else set()
    return (
        flow
        for flow in newest_first
        if (query.before is None or flow.id < query.before)
        and (not query.status or flow.status in query.status)
        and query.definition in (None, flow.definition)
        and query.queue in (None, flow.queue)
        and query.key in (None, flow.key)
        and query.batch in (None, flow.batch)
        and query.parent in (None, flow.parent)
        and has_tags(flow.tags, query.tags)
        and (query.prefix is None or flow.id.startswith(query.prefix))
        and (query.created_after is None or flow.created_at >= query.created_after)
        and (query.created_before is None or flow.created_at < query.created_before)
        and (involved is None or flow.id in involved)
        and (found is None or flow.id in found or _shows(flow, query.text or ""))
    )


def matching_letters(data: MemoryData, query: DeadQuery) -> Iterator[DeadLetter]:
    """Yield all of them, oldest first."""
    return (
        letter
        for letter in sorted(data.dead.values(), key=lambda letter: letter.cursor)
        if (query.after is None or letter.cursor > query.after)
        and (not query.flow_ids or letter.flow_id in query.flow_ids)
        and all(
            getattr(query, field) in (None, getattr(letter, field))
            for field in ("state", "definition", "step", "kind", "error_type", "queue", "dependency")
        )
    )


def _involved(data: MemoryData, query: FlowQuery) -> set[str] | None:
    """The flows whose work in the retry queue, or whose open dead letter, matches the query; None: all flows do."""
    dependency, error_type = query.dependency, query.error_type
    only_retries = query.retrying or query.waits_for is not None
    if not only_retries and dependency is None and error_type is None:
        return None
    retrying = {
        row.flow_id
        for row in data.retries.values()
        if query.waits_for in (None, row.waits_for)
        and dependency in (None, row.dependency)
        and error_type in (None, row.error_type)
    }
    if only_retries:
        return retrying
    dead = {
        letter.flow_id
        for letter in data.dead.values()
        if letter.state == "dead"
        and dependency in (None, letter.dependency)
        and error_type in (None, letter.error_type)
    }
    return retrying | dead


def _with_message(data: MemoryData, text: str) -> set[str]:
    return {one.flow_id for one in data.dead.values() if one.state == "dead" and text in one.message.lower()}


def _shows(flow: FlowRecord, text: str) -> bool:
    part = text.lower()
    return flow.id.startswith(text) or part in (flow.key or "").lower() or part in flow.definition.lower()
