"""The statements that add flows, also in a caller's own transaction: flows exist if and only if that commits."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from redrive.errors import StoreError
from redrive.stores.caller_transaction import PARAMETER, AddSteps, Rows, wrong_database
from redrive.stores.postgres.columns import FLOW, NEW_FLOW, flow_record, named, rows_of_json, selected, written
from redrive.stores.postgres.faults import REFUSED_STATEMENT
from redrive.stores.postgres.identifiers import channel_of, literal, quoted
from redrive.stores.records import FlowRecord, NewFlow

# The flow that has the key may be pruned between the two statements.
_MAX_ROUNDS = 5


@cache
def adding(schema: str) -> str:
    """Return the statement that adds flows, except those whose keys are taken, and returns the ids that it added."""
    new = rows_of_json(PARAMETER, NEW_FLOW, "new")
    # Sorted by key, so that two transactions which add the same keys cannot deadlock.
    return f"""
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


@cache
def _holding(schema: str) -> str:
    """Return the statement that finds the flows which already have these keys."""
    new = rows_of_json(PARAMETER, NEW_FLOW, "new")
    return f"""
        SELECT {selected(FLOW, "flows")}
        FROM {new} JOIN {quoted(schema)}.flows AS flows ON flows.definition = new.definition AND flows.key = new.key
    """  # noqa: S608 - the names are quoted, and the rest is a parameter


def add_flows_steps(schema: str, flows: Sequence[NewFlow]) -> AddSteps:
    """Add flows; returns what the store's `add_flows` returns."""
    left = {flow.id: flow for flow in flows}
    if len(left) < len(flows):
        raise StoreError("two of the flows to add have the same id; nothing was written")
    answers: dict[str, FlowRecord | None] = {}
    add, holders = adding(schema), _holding(schema)
    for _ in range(_MAX_ROUNDS):
        if left:
            for (flow_id,) in _as_text((yield add, (_json(left.values()),))):
                answers[flow_id] = None
                del left[flow_id]
        if not left:
            return [answers[flow.id] for flow in flows]
        found = [flow_record(row) for row in _as_text((yield holders, (_json(left.values()),)))]
        by_key = {(flow.definition, flow.key): flow for flow in found}
        answers |= {flow.id: by_key[key] for flow in left.values() if (key := (flow.definition, flow.key)) in by_key}
        left = {flow_id: flow for flow_id, flow in left.items() if flow_id not in answers}
    raise StoreError(f"flow {next(iter(left))} was not added: other flows keep taking and freeing its key; try again")


class Identity(NamedTuple):
    """Which database it is, as the server says."""

    name: str
    system: str | None
    """The identifier of the server's data, which a standby shares; None where the store's role may not read it."""


IDENTITY = "SELECT current_database(), system_identifier::text FROM pg_catalog.pg_control_system()"
NAME_ONLY = "SELECT current_database(), NULL"


async def identity_of(connection: Any) -> Identity:
    try:
        return Identity(*await connection.fetchrow(IDENTITY))
    except REFUSED_STATEMENT:
        return Identity(*await connection.fetchrow(NAME_ONLY))


def add_flows_steps_on(schema: str, flows: Sequence[NewFlow], identity: Identity, address: str) -> AddSteps:
    """Add flows on the caller's connection; WrongDatabaseError when that is connected to another database."""
    (row,) = _as_text((yield NAME_ONLY if identity.system is None else IDENTITY, ()))
    theirs = Identity(*row)
    if theirs != identity:
        of_another = f"database {theirs.name}" if theirs.name != identity.name else f"{theirs.name} of another server"
        raise wrong_database(of_another, address)
    return (yield from add_flows_steps(schema, flows))


def _as_text(rows: Rows) -> Rows:
    """Decode bytes, which psycopg returns where the encoding is SQL_ASCII; redrive writes UTF-8 there too."""
    return [[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]


def _json(flows: Iterable[NewFlow]) -> str:
    return msgspec.json.encode(list(flows)).decode()
