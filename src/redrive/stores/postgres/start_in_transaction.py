"""Adding flows, also on a caller's own connection: they exist if, and only if, that transaction commits."""

import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from redrive.errors import StoreError
from redrive.stores.postgres.columns import FLOW, NEW_FLOW, flow_record, named, rows_of_json, selected, written
from redrive.stores.postgres.names import channel_of, literal, quoted
from redrive.stores.records import FlowRecord, NewFlow

Rows = Sequence[Sequence[Any]]
Steps = Generator[tuple[str, str], Rows, list[FlowRecord | None]]
"""Each step is a statement and its only parameter, to be answered with the rows."""

# The flow that has the key may be pruned between the two statements: once, if ever.
_ROUNDS = 5


class ParameterStyle(NamedTuple):
    """How a driver is told where the parameter goes, and that a percent sign is just that."""

    parameter: str
    percent: str


ASYNCPG, PSYCOPG = ParameterStyle("$1", "%"), ParameterStyle("%s", "%%")
# No name has it in it.
_PARAMETER = "\x00"


@cache
def _statements(schema: str, style: ParameterStyle) -> tuple[str, ...]:
    """One adds flows; the other finds those that had the keys before."""
    new = rows_of_json(_PARAMETER, NEW_FLOW, "new")
    # In the order of their keys: two who add the same keys wait for each other, instead of each for the other.
    add = f"""
        WITH added AS (
            INSERT INTO {quoted(schema)}.flows ({named(NEW_FLOW)}, status, wake_at)
            SELECT {written(NEW_FLOW, "new")},
                CASE WHEN new.start_at > new.created_at THEN 'waiting' ELSE 'ready' END, to_timestamp(new.start_at)
            FROM (SELECT *, row_number() OVER () AS place FROM {new}) AS new
            ORDER BY new.definition, new.key, new.place
            ON CONFLICT (definition, key) WHERE key IS NOT NULL DO NOTHING
            RETURNING id
        ), told AS (
            SELECT count(pg_notify({literal(channel_of(schema))}, '')) FROM (SELECT FROM added LIMIT 1) AS one
        )
        SELECT added.id FROM added, told
    """  # noqa: S608 - the names are quoted, and all else is a parameter
    holders = f"""
        SELECT {selected(FLOW, "flows")}
        FROM {new} JOIN {quoted(schema)}.flows AS flows ON flows.definition = new.definition AND flows.key = new.key
    """  # noqa: S608 - the names are quoted, and all else is a parameter
    return tuple(one.replace("%", style.percent).replace(_PARAMETER, style.parameter) for one in (add, holders))


def adding(schema: str, flows: Sequence[NewFlow], style: ParameterStyle = ASYNCPG) -> Steps:
    """Add flows; answers as the store's `add_flows`. Written once for all ways to talk to a database."""
    left = {flow.id: flow for flow in flows}
    if len(left) < len(flows):
        raise StoreError("two of the flows to be added have the same id; nothing was added")
    answers: dict[str, FlowRecord | None] = {}
    add, holders = _statements(schema, style)
    for _ in range(_ROUNDS):
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
    raise StoreError(f"flow {next(iter(left))} was not added: its key belongs to a flow that comes and goes; try again")


async def answered(steps: Steps, fetch: Callable[[str, str], Awaitable[Rows]]) -> list[FlowRecord | None]:
    try:
        statement, parameter = next(steps)
        while True:
            statement, parameter = steps.send(await fetch(statement, parameter))
    except StopIteration as done:
        return _answer(done)


async def add_flows_on(connection: Any, schema: str, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    """Add flows in the transaction of this connection, of asyncpg or psycopg. Workers hear of them when it commits."""
    if _is_one_of("asyncpg", "Connection", connection):
        return await answered(adding(schema, flows), connection.fetch)
    if _is_one_of("psycopg", "Connection", connection):
        return add_flows_on_sync(connection, schema, flows)
    if not _is_one_of("psycopg", "AsyncConnection", connection):
        raise _refused(connection, "an asyncpg.Connection, a psycopg.AsyncConnection or a psycopg.Connection")
    from psycopg.rows import tuple_row

    async with connection.cursor(row_factory=tuple_row) as cursor:

        async def fetch(statement: str, parameter: str) -> Rows:
            await cursor.execute(statement, (parameter,))
            return await cursor.fetchall()  # type: ignore[no-any-return]  # a connection is only known at run time

        return await answered(adding(schema, flows, PSYCOPG), fetch)


def add_flows_on_sync(connection: Any, schema: str, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    """The same on a connection without async: that of psycopg."""
    if not _is_one_of("psycopg", "Connection", connection):
        raise _refused(connection, "a psycopg.Connection")
    from psycopg.rows import tuple_row

    steps = adding(schema, flows, PSYCOPG)
    with connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement, parameter = next(steps)
            while True:
                cursor.execute(statement, (parameter,))
                statement, parameter = steps.send(cursor.fetchall())
        except StopIteration as done:
            return _answer(done)


def _answer(done: StopIteration) -> list[FlowRecord | None]:
    return done.value  # type: ignore[no-any-return]  # what `adding` returned


def _as_text(rows: Rows) -> Rows:
    """psycopg gives bytes where the encoding is SQL_ASCII; what redrive writes is UTF-8 there, too."""
    return [[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]


def _json(flows: Iterable[NewFlow]) -> str:
    return msgspec.json.encode(list(flows)).decode()


def _is_one_of(library: str, name: str, connection: Any) -> bool:
    """Without importing a library that the caller does not use."""
    module = sys.modules.get(library)
    return module is not None and isinstance(connection, getattr(module, name))


def _refused(connection: Any, wanted: str) -> TypeError:
    return TypeError(f"flows cannot be started on a {type(connection).__qualname__}; give {wanted}")
