"""The conditions of queries, only those that were asked for, so that an index can serve them."""

from typing import Any

from redrive.stores.id_range import id_range
from redrive.stores.records import DeadQuery, FlowQuery
from redrive.stores.sqlite.rows import json_list

# ruff: noqa: S608 - our own names, and parameters

AMONG = "IN (SELECT value FROM json_each(?))"
_PARTIAL = {
    "status IN ('paused', 'parked')": frozenset({"paused", "parked"}),
    "status IN ('failed', 'cancelled')": frozenset({"failed", "cancelled"}),
}
"""The partial indexes on statuses, which are used only where the statement has the same condition."""
_FOUND = """
(id >= ? AND id < ? OR instr(lower(key), lower(?)) OR instr(lower(definition), lower(?))
OR ? AND id IN (SELECT flow_id FROM dead_letters WHERE state = 'dead' AND instr(lower(message), lower(?))))
"""


class Conditions:
    """Conditions that all must hold, and the values of their parameters."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self._texts.append(f" AND {condition}")
        self.values += values

    def equal(self, query: Any, *names: str) -> "Conditions":
        """Add one for each of the fields that is not None."""
        for name in names:
            if (value := getattr(query, name)) is not None:
                self.add(f"{name} = ?", value)
        return self

    @property
    def text(self) -> str:
        return "".join(self._texts)


def of_flows(query: FlowQuery) -> Conditions:
    found = Conditions().equal(query, "definition", "queue", "key", "batch", "parent")
    if query.tags:
        found.add("tags IS NOT NULL")
    for name, text in query.tags.items():
        # Names are plain; a quoted one is taken as it is.
        found.add("json_extract(tags, ?) = ?", f'$."{name}"', text)
    if query.status:
        for condition, statuses in _PARTIAL.items():
            if statuses.issuperset(query.status):
                found.add(condition)
        found.add(f"status {AMONG}", json_list(query.status))
    if query.prefix is not None:
        found.add("id >= ? AND id < ?", *id_range(query.prefix))
    if query.before is not None:
        # Ids sort by time. The flow that ended the last page may be gone.
        found.add("id < ?", query.before)
    if query.created_after is not None:
        found.add("created_at >= ?", query.created_after)
    if query.created_before is not None:
        found.add("created_at < ?", query.created_before)
    _add_involved(found, query)
    if query.text is not None:
        found.add(_FOUND, *id_range(query.text), query.text, query.text, query.in_messages, query.text)
    return found


def of_dead_letters(query: DeadQuery) -> Conditions:
    found = Conditions().equal(query, "state", "definition", "step", "kind", "error_type", "queue", "dependency")
    if query.flow_ids:
        found.add(f"flow_id {AMONG}", json_list(query.flow_ids))
    return found


def _add_involved(found: Conditions, query: FlowQuery) -> None:
    """Keep to flows whose work in the retry queue, or whose open dead letter, matches the query."""
    either = Conditions().equal(query, "dependency", "error_type")
    retrying = Conditions().equal(query, "waits_for")
    if not (query.retrying or retrying.values or either.values):
        return
    rows = f"SELECT flow_id FROM retry_queue WHERE true{retrying.text}{either.text}"
    values = [*retrying.values, *either.values]
    if not query.retrying and not retrying.values:
        rows += f" UNION ALL SELECT flow_id FROM dead_letters WHERE state = 'dead'{either.text}"
        values += either.values
    found.add(f"id IN ({rows})", *values)
