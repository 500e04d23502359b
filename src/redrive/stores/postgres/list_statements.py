"""Statements of the list verbs, with only the conditions that were asked for, so that an index can serve them."""

from typing import Any

from redrive.stores.id_range import id_range
from redrive.stores.postgres.columns import DEAD_LETTER, FLOW, RETRY, selected
from redrive.stores.postgres.identifiers import literal
from redrive.stores.records import DeadQuery, FlowQuery, RetryQuery

# ruff: noqa: S608 - values that are not parameters are quoted


class _Conditions:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def equal(self, query: Any, *columns: str) -> "_Conditions":
        for column in columns:
            if (value := getattr(query, column)) is not None:
                self.add(f"{column} = {{}}", value)
        return self

    def add(self, condition: str, *values: Any) -> None:
        first = len(self.values) + 1
        self.values += values
        self.texts.append(condition.format(*(f"${first + index}" for index in range(len(values)))))

    def statement(self, select: str, order: str, limit: int) -> tuple[str, list[Any]]:
        where = f"WHERE {' AND '.join(self.texts)}" if self.texts else ""
        return f"{select} {where} ORDER BY {order} LIMIT ${len(self.values) + 1}", [*self.values, limit]


def list_flows(query: FlowQuery) -> tuple[str, list[Any]]:
    conditions = _Conditions().equal(query, "definition", "queue", "key")
    if query.status:
        # Literals, so that the partial indexes on these statuses can be used.
        conditions.texts.append(f"status IN ({', '.join(map(literal, query.status))})")
    if query.prefix is not None:
        conditions.add("id >= {} AND id < {}", *id_range(query.prefix))
    if query.before is not None:
        conditions.add("id < {}", query.before)
    return conditions.statement(f"SELECT {selected(FLOW, 'flows')} FROM flows", "id DESC", query.limit)


def list_retries(query: RetryQuery) -> tuple[str, list[Any]]:
    conditions = _Conditions().equal(query, "flow_id", "queue")
    select = f"SELECT {selected(RETRY, 'retry_queue')} FROM retry_queue"
    return conditions.statement(select, "retry_queue.scheduled_at, flow_id, item", query.limit)


def list_dead_letters(query: DeadQuery) -> tuple[str, list[Any]]:
    conditions = _Conditions().equal(query, "state", "definition", "step", "kind", "error_type", "queue")
    if query.flow_ids:
        conditions.add("flow_id = ANY ({}::text[])", list(query.flow_ids))
    if query.after is not None:
        conditions.add("(dead_letters.at, flow_id) > (to_timestamp({}), {})", *query.after)
    select = f"SELECT {selected(DEAD_LETTER, 'dead_letters')} FROM dead_letters"
    return conditions.statement(select, "dead_letters.at, flow_id", query.limit)
