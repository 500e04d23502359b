"""Statements of the list verbs, with only the conditions that were asked for, so that an index can serve them."""

from typing import Any

from redrive.flows.tags import write_tags
from redrive.stores.id_range import id_range
from redrive.stores.postgres.columns import DEAD_LETTER, FLOW, RETRY, selected
from redrive.stores.postgres.identifiers import literal
from redrive.stores.records import DeadQuery, FlowQuery, RetryQuery

# ruff: noqa: S608 - values that are not parameters are quoted


class Conditions:
    """Conditions that all must hold, and the values of their parameters."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def equal(self, query: Any, *columns: str) -> "Conditions":
        for column in columns:
            if (value := getattr(query, column)) is not None:
                self.add(f"{column} = {{}}", value)
        return self

    def add(self, condition: str, *values: Any) -> None:
        first = len(self.values) + 1
        self.values += values
        self.texts.append(condition.format(*(f"${first + index}" for index in range(len(values)))))

    @property
    def where(self) -> str:
        return f"WHERE {' AND '.join(self.texts)}" if self.texts else ""

    def statement(self, select: str, order: str, limit: int) -> tuple[str, list[Any]]:
        return f"{select} {self.where} ORDER BY {order} LIMIT ${len(self.values) + 1}", [*self.values, limit]


def list_flows(query: FlowQuery) -> tuple[str, list[Any]]:
    return _of_flows(query).statement(f"SELECT {selected(FLOW, 'flows')} FROM flows", "id DESC", query.limit)


def count_flows(query: FlowQuery) -> tuple[str, list[Any]]:
    """Count them up to the query's limit."""
    conditions = _of_flows(query)
    one_each = f"SELECT FROM flows {conditions.where} LIMIT ${len(conditions.values) + 1}"
    return f"SELECT count(*) FROM ({one_each}) AS found", [*conditions.values, query.limit]


def list_retries(query: RetryQuery) -> tuple[str, list[Any]]:
    conditions = Conditions().equal(query, "flow_id", "queue")
    if query.flow_ids:
        conditions.add("flow_id = ANY ({}::text[])", list(query.flow_ids))
    select = f"SELECT {selected(RETRY, 'retry_queue')} FROM retry_queue"
    return conditions.statement(select, "retry_queue.scheduled_at, flow_id, item", query.limit)


def list_dead_letters(query: DeadQuery) -> tuple[str, list[Any]]:
    conditions = of_dead_letters(query)
    if query.after is not None:
        conditions.add("(dead_letters.at, flow_id) > (to_timestamp({}), {})", *query.after)
    select = f"SELECT {selected(DEAD_LETTER, 'dead_letters')} FROM dead_letters"
    return conditions.statement(select, "dead_letters.at, flow_id", query.limit)


def of_dead_letters(query: DeadQuery) -> Conditions:
    names = ("state", "definition", "step", "kind", "error_type", "queue", "dependency")
    conditions = Conditions().equal(query, *names)
    if query.flow_ids:
        conditions.add("flow_id = ANY ({}::text[])", list(query.flow_ids))
    return conditions


def _of_flows(query: FlowQuery) -> Conditions:
    conditions = Conditions().equal(query, "definition", "queue", "key", "batch", "parent")
    if query.tags:
        conditions.add("tags::jsonb @> {}::text::jsonb", write_tags(query.tags))
    if query.status:
        # Literals, so that the partial indexes on these statuses can be used.
        conditions.texts.append(f"status IN ({', '.join(map(literal, query.status))})")
    if query.prefix is not None:
        conditions.add("id >= {} AND id < {}", *id_range(query.prefix))
    if query.before is not None:
        conditions.add("id < {}", query.before)
    if query.created_after is not None:
        conditions.add("created_at >= to_timestamp({})", query.created_after)
    if query.created_before is not None:
        conditions.add("created_at < to_timestamp({})", query.created_before)
    _add_involved(conditions, query)
    if query.text is not None:
        conditions.add(_FOUND, *id_range(query.text), query.text, query.in_messages)
    return conditions


_FOUND = """(
    id >= {0} AND id < {1} OR strpos(lower(key), lower({2})) > 0 OR strpos(lower(definition), lower({2})) > 0
    OR {3} AND id IN (SELECT flow_id FROM dead_letters WHERE state = 'dead' AND strpos(lower(message), lower({2})) > 0)
)"""


def _add_involved(conditions: Conditions, query: FlowQuery) -> None:
    """Keep to flows whose work in the retry queue, or whose open dead letter, matches the query."""
    only_retries = query.retrying or query.waits_for is not None
    values = {name: getattr(query, name) for name in ("dependency", "error_type") if getattr(query, name) is not None}
    if not only_retries and not values:
        return
    given = [*values.values(), *([] if query.waits_for is None else [query.waits_for])]
    either = [f"{name} = {{{place}}}" for place, name in enumerate(values)]
    waits = [] if query.waits_for is None else [f"waits_for = {{{len(values)}}}"]
    rows = f"SELECT flow_id FROM retry_queue WHERE {' AND '.join(['true', *waits, *either])}"
    if not only_retries:
        rows += f" UNION ALL SELECT flow_id FROM dead_letters WHERE {' AND '.join([_DEAD, *either])}"
    conditions.add(f"id IN ({rows})", *given)


_DEAD = "state = 'dead'"
