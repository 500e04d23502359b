"""A commit as one statement, made of the parts that the batch has, so that common batches have short statements.

Columns of many rows are sent as one text each, because the driver is slow with arrays. U+001F separates texts, since no
JSON text contains it; numbers are written as a PostgreSQL array literal.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from redrive.stores.postgres.columns import DEAD_LETTER, HEARTBEAT, NEW_FLOW, RETRY, named, rows_of_json, written
from redrive.stores.records import Batch, EventRow, FlowChange, FlowStatus, NewFlow

_encode = msgspec.json.Encoder().encode
_SEPARATOR = "\x1f"

# Ending a lease deletes its row, so a commit and the end of its lease wait for each other.
_VALID = "epoch = $1 AND commit_fence = $2 AND expires_at > now()"
_NUMBERED_LEASE = f"lease AS (UPDATE workers SET last_batch = $3 WHERE {_VALID} RETURNING epoch)"  # noqa: S608 - our own words
# A batch with events needs no number: the log tells whether it was committed. A lock is cheaper than an update, which
# leaves a dead row version that later reads must skip for as long as any old snapshot lives.
_LOCKED_LEASE = f"lease AS MATERIALIZED (SELECT epoch FROM workers WHERE {_VALID} FOR SHARE)"  # noqa: S608 - our own words

_EVENTS = r"""
written AS (
    INSERT INTO events (flow_id, seq, at, body)
    SELECT e.flow_id, e.seq, to_timestamp(e.at), e.body FROM lease, unnest(
        string_to_array({0}, E'\x1f'), {1}::text::integer[], {2}::text::float8[], string_to_array({3}, E'\x1f')::json[]
    ) AS e (flow_id, seq, at, body)
)"""

# A waiting flow that only a message wakes has no time in its record, and an infinite one in its row.
# The rows as they are after the whole batch: a statement cannot update the rows that it inserts.
_NEW_FLOWS = """
added AS (
    INSERT INTO flows ({columns}, status, wake_at, owner, claims, messages_read, finished_at, run_from)
    SELECT {written}, b.status,
        coalesce(to_timestamp(b.wake_at), CASE WHEN b.status = 'waiting' THEN 'infinity'::timestamptz END),
        CASE WHEN b.status = 'running' THEN lease.epoch END, 1,
        b.messages_read, to_timestamp(b.finished_at), b.run_from
    FROM lease, {rows}
    RETURNING status, queue
)"""

# `f.messages_sent` is read from the latest version of the row, so a message sent meanwhile is seen.
# IS NOT DISTINCT FROM cannot use an index. That is intended: rows are found by id, not through the index on the owner,
# which is full of dead entries.
_FLOWS = """
changed AS (
    UPDATE flows AS f SET
        status = CASE WHEN c.yields AND f.messages_sent > c.messages_read THEN 'ready' ELSE c.status END,
        wake_at = CASE
            WHEN c.status = 'running' OR c.yields AND f.messages_sent > c.messages_read THEN f.wake_at
            WHEN c.status = 'ready' THEN coalesce(to_timestamp(c.wake_at), f.wake_at)
            WHEN c.status = 'waiting' THEN coalesce(to_timestamp(c.wake_at), 'infinity')
            ELSE to_timestamp(c.wake_at)
        END,
        owner = CASE WHEN c.status = 'running' THEN f.owner END,
        messages_read = c.messages_read,
        lost_owners = c.lost_owners,
        blame = CASE WHEN c.blame IS NULL THEN f.blame ELSE nullif(c.blame, '') END,
        version = CASE WHEN c.version IS NULL THEN f.version ELSE nullif(c.version, '') END,
        finished_at = CASE
            WHEN NOT (c.yields AND f.messages_sent > c.messages_read) THEN to_timestamp(c.finished_at)
        END,
        input = coalesce(c.input::json, f.input),
        run_from = coalesce(c.run_from, f.run_from)
    FROM lease, (
        SELECT *, c.status IN ('ready', 'waiting', 'paused', 'parked', 'failed') AS yields FROM {rows}
    ) AS c
    WHERE f.id = c.flow_id AND f.owner IS NOT DISTINCT FROM lease.epoch
    RETURNING
        f.id, f.status,
        f.messages_sent > f.messages_read AND NOT c.yields AND c.status <> 'running' AS drops_inbox
)"""

# As the flow is before this statement; a flow that the statement adds has its first input in the parameter.
_ENDED_RUNS = """
runs_ended AS (
    INSERT INTO ended_runs (flow_id, run_from, run_to, ended_at, input)
    SELECT r.flow_id, coalesce(f.run_from, 0), r.run_from, to_timestamp(r.wake_at), coalesce(r.input::json, f.input)
    FROM lease, {rows} LEFT JOIN flows AS f ON f.id = r.flow_id
)"""

# Messages that arrive while this statement runs are left to `prune`. An array instead of a join: a plan made while
# there are no messages would scan all of them later.
_DROP_INBOXES = """
inboxes_dropped AS (
    DELETE FROM messages WHERE flow_id = ANY (ARRAY(SELECT id FROM changed WHERE drops_inbox))
)"""

_ITEMS_DONE = r"""
{name} AS (
    DELETE FROM {table} AS t USING lease,
        unnest(string_to_array({{0}}, E'\x1f'), {{1}}::text::integer[]) AS done (flow_id, item)
    WHERE t.flow_id = done.flow_id AND t.item = done.item
)"""

_MESSAGES_READ = """
emptied AS (
    DELETE FROM messages AS m USING lease, unnest({0}::text::bigint[]) AS read (id) WHERE m.id = read.id
)"""

# For a few events, splitting the texts would cost more than everything else.
_FEW = 4
_FEW_EVENTS = """
WITH {locked} INSERT INTO events (flow_id, seq, at, body)
SELECT e.flow_id, e.seq, to_timestamp(e.at), e.body FROM lease, (VALUES {rows}) AS e (flow_id, seq, at, body)
"""
_ONE_EVENT = f"""
INSERT INTO events (flow_id, seq, at, body)
SELECT $3::text, $4::integer, to_timestamp($5::float8), $6::json FROM workers WHERE {_VALID} FOR SHARE
"""  # noqa: S608 - our own words

_PUT = """
{name} AS (
    INSERT INTO {table} AS t ({columns}) SELECT {written} FROM lease, {rows}
    ON CONFLICT ({key}) DO UPDATE SET ({columns}) = ROW ({excluded})
)"""

# A statement aborts itself by dividing by zero; faults.py translates the error.
_ABORT_UNLESS_OWNED = "1 / ((SELECT count(*) FROM changed) = json_array_length({0}::text::json))::int"
_ABORT_IF_LIMITED = "1 / (NOT EXISTS (SELECT FROM added JOIN queue_limits ON queue_limits.name = added.queue))::int"
_NOTIFY = "(SELECT count(pg_notify({channel}, '')) FROM (SELECT FROM {table} WHERE status = 'ready' LIMIT 1) AS one)"


def _put(table: str, columns: Sequence[str], key: str) -> str:
    excluded = ", ".join(f'EXCLUDED."{column}"' for column in columns)
    rows = rows_of_json("{0}", columns, "r")
    columns_named, columns_written = named(columns), written(columns, "r")
    return _PUT.format(
        name=f"put_{table}",
        table=table,
        columns=columns_named,
        written=columns_written,
        rows=rows,
        key=key,
        excluded=excluded,
    )


class _AddedFlow(NewFlow, frozen=True, kw_only=True):
    """A new flow as it is at the end of the batch."""

    status: FlowStatus
    wake_at: float | None
    messages_read: int
    finished_at: float | None
    run_from: int = 0


_PARTS: dict[str, tuple[str, ...]] = {
    "new_flows": (
        _NEW_FLOWS.format(
            columns=named(NEW_FLOW),
            written=written(NEW_FLOW, "b"),
            rows=rows_of_json("{0}", _AddedFlow.__struct_fields__, "b"),
        ),
    ),
    "events": (_EVENTS,),
    "flows": (_FLOWS.format(rows=rows_of_json("{0}", FlowChange.__struct_fields__, "c")), _DROP_INBOXES),
    "ended_runs": (_ENDED_RUNS.format(rows=rows_of_json("{0}", ("flow_id", "run_from", "wake_at", "input"), "r")),),
    "retries": (_put("retry_queue", RETRY, "flow_id, item"),),
    "heartbeats": (_put("heartbeats", HEARTBEAT, "flow_id, item"),),
    "dead": (_put("dead_letters", DEAD_LETTER, "flow_id"),),
    "items_done": tuple(_ITEMS_DONE.format(name=f"done_{one}", table=one) for one in ("retry_queue", "heartbeats")),
    "messages_read": (_MESSAGES_READ,),
}
_PARAMETERS = {"events": 4, "items_done": 2}


@cache
def _statement(parts: tuple[str, ...], channel: str) -> str:
    """Return the statement for batches that have these parts."""
    lease, parameter = (_LOCKED_LEASE, 3) if "events" in parts else (_NUMBERED_LEASE, 4)
    common_tables, columns = [lease], ["1"]
    for part in parts:
        names = [f"${parameter + index}" for index in range(_PARAMETERS.get(part, 1))]
        common_tables += [one.format(*names) for one in _PARTS[part]]
        if part == "flows":
            columns += [_ABORT_UNLESS_OWNED.format(*names), _NOTIFY.format(channel=channel, table="changed")]
        elif part == "new_flows":
            columns += [_ABORT_IF_LIMITED, _NOTIFY.format(channel=channel, table="added")]
        parameter += len(names)
    return f"WITH {', '.join(common_tables)} SELECT {', '.join(columns)} FROM lease"  # noqa: S608 - our own words


@cache
def _few_events(count: int) -> str:
    """Return the statement for a few events and nothing else: most batches of flows that run step by step."""
    if count == 1:
        return _ONE_EVENT
    first = range(3, 3 + 4 * count, 4)
    rows = ", ".join(f"(${one}::text, ${one + 1}::integer, ${one + 2}::float8, ${one + 3}::json)" for one in first)
    return _FEW_EVENTS.format(locked=_LOCKED_LEASE, rows=rows)


def commit_statement(batch: Batch, channel: str) -> tuple[str, list[Any]]:
    """Return the statement, and its parameters after the lease's epoch and fence.

    The statement affects no rows when the lease is not valid.
    """
    if batch.has_only_events:
        if len(batch.events) <= _FEW:
            return _few_events(len(batch.events)), list(chain.from_iterable(batch.events))
        return _statement(("events",), channel), list(_events(batch.events))
    parts: list[str] = []
    parameters: list[Any] = [] if batch.events else [batch.number]

    def has(part: str, *values: str) -> None:
        parts.append(part)
        parameters.extend(values)

    changes = {change.flow_id: change for change in batch.flows}
    if ended_runs := [
        _ended_run(change, batch.new_flows) for change in changes.values() if change.run_from is not None
    ]:
        has("ended_runs", rows_as_json(ended_runs))
    if batch.new_flows:
        has("new_flows", rows_as_json([_added(flow, changes.pop(flow.id, None)) for flow in batch.new_flows]))
    if batch.events:
        has("events", *_events(batch.events))
    if changes:
        has("flows", rows_as_json(changes.values()))
    done = set(batch.retries_done)
    if retries := {item: row for row in batch.retries if (item := (row.flow_id, row.item)) not in done}:
        has("retries", rows_as_json(retries.values()))
    if beats := {item: row for row in batch.heartbeats if (item := (row.flow_id, row.item)) not in done}:
        has("heartbeats", rows_as_json(row._asdict() for row in beats.values()))
    if batch.dead:
        has("dead", rows_as_json({letter.flow_id: letter for letter in batch.dead}.values()))
    if done:
        flow_ids, items = zip(*done, strict=True)
        has("items_done", _SEPARATOR.join(flow_ids), _numbers(items))
    if batch.messages_read:
        has("messages_read", _numbers(list(batch.messages_read)))
    return _statement(tuple(parts), channel), parameters


def _added(flow: NewFlow, change: FlowChange | None) -> _AddedFlow:
    fields = msgspec.structs.asdict(flow)
    if change is None:
        return _AddedFlow(**fields, status="running", wake_at=flow.start_at, messages_read=0, finished_at=None)
    wake_at = change.wake_at
    if wake_at is None and change.status in ("ready", "running"):
        wake_at = flow.start_at
    if change.input is not None:
        fields["input"] = change.input
    return _AddedFlow(
        **fields,
        run_from=change.run_from or 0,
        status=change.status,
        wake_at=wake_at,
        messages_read=change.messages_read,
        finished_at=change.finished_at,
    )


def _ended_run(change: FlowChange, new_flows: Sequence[NewFlow]) -> FlowChange:
    """Return the change, with the input that the flow was added with, if this commit adds it."""
    first = next((flow.input for flow in new_flows if flow.id == change.flow_id), None)
    return msgspec.structs.replace(change, input=first)


def _events(events: list[EventRow]) -> tuple[str, str, str, str]:
    flow_ids, seqs, times, bodies = zip(*events, strict=True)
    return _SEPARATOR.join(flow_ids), _numbers(seqs), _numbers(times), _SEPARATOR.join(bodies)


def _numbers(numbers: Sequence[float]) -> str:
    """Return the numbers as an array literal."""
    return f"{{{_encode(numbers)[1:-1].decode()}}}"


def rows_as_json(rows: Iterable[Any]) -> str:
    """Return the rows as a JSON array of objects, without what PostgreSQL refuses in texts."""
    rows = list(rows)
    try:
        text = _encode(rows).decode()
    except UnicodeEncodeError:
        text = _NUL
    # Error messages contain any character. One that PostgreSQL refuses must not block the worker's commits for ever.
    if _NUL in text:
        text = _encode([{field: _storable(value) for field, value in _fields(row)} for row in rows]).decode()
    return text


_NUL = "\\u0000"


def _fields(row: Any) -> Iterable[tuple[str, Any]]:
    return row.items() if isinstance(row, dict) else msgspec.structs.asdict(row).items()


def _storable(value: Any) -> Any:
    """Return text with NUL and unpaired surrogates escaped."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
