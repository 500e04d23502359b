"""Lists: a statement for just what is asked, so that PostgreSQL can choose the index for it."""

from typing import Any

from redrive.stores.postgres.columns import DEAD_LETTER, FLOW, RETRY, selected
from redrive.stores.postgres.names import literal
from redrive.stores.records import DeadQuery, FlowQuery, RetryQuery

# ruff: noqa: S608 - the only values that are no parameters are quoted


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


def flow_list(query: FlowQuery) -> tuple[str, list[Any]]:
    wanted = _Conditions().equal(query, "definition", "queue", "key")
    if query.status:
        # Written out: only then the indexes that hold these statuses alone can be used.
        wanted.texts.append(f"status IN ({', '.join(map(literal, query.status))})")
    if query.before is not None:
        wanted.add("id < {}", query.before)
    return wanted.statement(f"SELECT {selected(FLOW, 'flows')} FROM flows", "id DESC", query.limit)


def retry_list(query: RetryQuery) -> tuple[str, list[Any]]:
    wanted = _Conditions().equal(query, "flow_id", "queue")
    select = f"SELECT {selected(RETRY, 'retry_queue')} FROM retry_queue"
    return wanted.statement(select, "retry_queue.scheduled_at, flow_id, item", query.limit)


def dead_list(query: DeadQuery) -> tuple[str, list[Any]]:
    wanted = _Conditions().equal(query, "state", "definition", "step", "kind", "error_type", "queue")
    if query.flow_ids:
        wanted.add("flow_id = ANY ({}::text[])", list(query.flow_ids))
    if query.after is not None:
        wanted.add("(dead_letters.at, flow_id) > (to_timestamp({}), {})", *query.after)
    select = f"SELECT {selected(DEAD_LETTER, 'dead_letters')} FROM dead_letters"
    return wanted.statement(select, "dead_letters.at, flow_id", query.limit)
