"""Adds flows, also in a caller's own transaction: they exist if and only if that transaction commits."""

import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from redrive.errors import StoreError
from redrive.stores.postgres.columns import FLOW, NEW_FLOW, flow_record, named, rows_of_json, selected, written
from redrive.stores.postgres.identifiers import channel_of, literal, quoted
from redrive.stores.records import FlowRecord, NewFlow

Rows = Sequence[Sequence[Any]]
Steps = Generator[tuple[str, str], Rows, list[FlowRecord | None]]
"""Yields statements with their only parameter, and is sent the rows; the protocol is written once, sans-IO."""

# The flow that has the key may be pruned between the two statements.
_MAX_ROUNDS = 5


class ParameterStyle(NamedTuple):
    """How a driver writes a parameter and a literal percent sign."""

    parameter: str
    percent: str


ASYNCPG, PSYCOPG = ParameterStyle("$1", "%"), ParameterStyle("%s", "%%")
# Occurs in no name.
_PARAMETER = "\x00"


@cache
def _statements(schema: str, style: ParameterStyle) -> tuple[str, ...]:
    """Return two statements: one adds flows, the other finds the flows that already have their keys."""
    new = rows_of_json(_PARAMETER, NEW_FLOW, "new")
    # Sorted by key, so that two transactions which add the same keys cannot deadlock.
    add = f"""
        WITH added AS (
            INSERT INTO {quoted(schema)}.flows ({named(NEW_FLOW)}, status, wake_at)
            SELECT {written(NEW_FLOW, "new")},
                CASE WHEN new.start_at > new.created_at THEN 'waiting' ELSE 'ready' END, to_timestamp(new.start_at)
            FROM (SELECT *, row_number() OVER () AS position FROM {new}) AS new
            ORDER BY new.definition, new.key, new.position
            ON CONFLICT (definition, key) WHERE key IS NOT NULL DO NOTHING
            RETURNING id
        ), notified AS (
            SELECT count(pg_notify({literal(channel_of(schema))}, '')) FROM (SELECT FROM added LIMIT 1) AS one
        )
        SELECT added.id FROM added, notified
    """  # noqa: S608 - the names are quoted, and the rest is a parameter
    holders = f"""
        SELECT {selected(FLOW, "flows")}
        FROM {new} JOIN {quoted(schema)}.flows AS flows ON flows.definition = new.definition AND flows.key = new.key
    """  # noqa: S608 - the names are quoted, and the rest is a parameter
    return tuple(one.replace("%", style.percent).replace(_PARAMETER, style.parameter) for one in (add, holders))


def add_flows_steps(schema: str, flows: Sequence[NewFlow], style: ParameterStyle = ASYNCPG) -> Steps:
    """Add flows; returns what the store's `add_flows` returns."""
    left = {flow.id: flow for flow in flows}
    if len(left) < len(flows):
        raise StoreError("two of the flows to add have the same id; nothing was written")
    answers: dict[str, FlowRecord | None] = {}
    add, holders = _statements(schema, style)
    for _ in range(_MAX_ROUNDS):
        if left:
            for (flow_id,) in _as_text((yield add, _json(left.values()))):
                answers[flow_id] = None
                del left[flow_id]
        if not left:
            return [answers[flow.id] for flow in flows]
        found = [flow_record(row) for row in _as_text((yield holders, _json(left.values())))]
        by_key = {(flow.definition, flow.key): flow for flow in found}
        answers |= {flow.id: by_key[key] for flow in left.values() if (key := (flow.definition, flow.key)) in by_key}
        left = {flow_id: flow for flow_id, flow in left.items() if flow_id not in answers}
    raise StoreError(f"flow {next(iter(left))} was not added: other flows keep taking and freeing its key; try again")


async def run_steps(steps: Steps, fetch: Callable[[str, str], Awaitable[Rows]]) -> list[FlowRecord | None]:
    try:
        statement, parameter = next(steps)
        while True:
            statement, parameter = steps.send(await fetch(statement, parameter))
    except StopIteration as done:
        return _result(done)


async def add_flows_on(connection: Any, schema: str, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    """Add flows in the transaction of an asyncpg or psycopg connection; workers are notified when it commits."""
    if _is_one_of("asyncpg", "Connection", connection):
        return await run_steps(add_flows_steps(schema, flows), connection.fetch)
    if _is_one_of("psycopg", "Connection", connection):
        return add_flows_on_sync(connection, schema, flows)
    if not _is_one_of("psycopg", "AsyncConnection", connection):
        raise _refused(connection, "an asyncpg.Connection, a psycopg.AsyncConnection or a psycopg.Connection")
    from psycopg.rows import tuple_row

    async with connection.cursor(row_factory=tuple_row) as cursor:

        async def fetch(statement: str, parameter: str) -> Rows:
            await cursor.execute(statement, (parameter,))
            return await cursor.fetchall()  # type: ignore[no-any-return]  # the connection is untyped

        return await run_steps(add_flows_steps(schema, flows, PSYCOPG), fetch)


def add_flows_on_sync(connection: Any, schema: str, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    """Add flows in the transaction of a synchronous psycopg connection."""
    if not _is_one_of("psycopg", "Connection", connection):
        raise _refused(connection, "a psycopg.Connection")
    from psycopg.rows import tuple_row

    steps = add_flows_steps(schema, flows, PSYCOPG)
    with connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement, parameter = next(steps)
            while True:
                cursor.execute(statement, (parameter,))
                statement, parameter = steps.send(cursor.fetchall())
        except StopIteration as done:
            return _result(done)


def _result(done: StopIteration) -> list[FlowRecord | None]:
    return done.value  # type: ignore[no-any-return]  # what the generator returned


def _as_text(rows: Rows) -> Rows:
    """Decode bytes, which psycopg returns where the encoding is SQL_ASCII; redrive writes UTF-8 there too."""
    return [[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]


def _json(flows: Iterable[NewFlow]) -> str:
    return msgspec.json.encode(list(flows)).decode()


def _is_one_of(library: str, name: str, connection: Any) -> bool:
    """Check the type without importing a library that the caller does not use."""
    module = sys.modules.get(library)
    return module is not None and isinstance(connection, getattr(module, name))


def _refused(connection: Any, wanted: str) -> TypeError:
    return TypeError(f"flows cannot be started on a {type(connection).__qualname__}; pass {wanted}")
