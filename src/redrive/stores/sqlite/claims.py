"""Claims, one partition at a time: a partition is the flows of one queue and one definition, adjacent in an index.

A claim never reads flows that are not due, are finished, or lie in a partition it did not ask for. It takes at most one
flow with a large input: the update writes all of the row again, and meanwhile nobody else can write.
"""

import itertools
import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.claimed import Claimed
from redrive.stores.leases import Lease
from redrive.stores.pools import pools_of
from redrive.stores.records import FlowRecord
from redrive.stores.sqlite.leases import check_lease, update_definitions
from redrive.stores.sqlite.rows import FLOW_FIELDS, columns, flow_record, json_list
from redrive.stores.sqlite.turns import Matches, Turns, has_keyed, queue_settings
from redrive.stores.turns import Choice

# Jumps in the index from the first flow of a partition to the first flow of the next.
_PARTITIONS = """
WITH RECURSIVE first_of_partition (number) AS (
    SELECT (SELECT number FROM flows WHERE {of} ORDER BY queue, pool, {order} LIMIT 1)
    UNION ALL
    SELECT coalesce(
        (
            SELECT number FROM flows
            WHERE {of} AND queue = here.queue AND pool > here.pool
            ORDER BY pool, {order} LIMIT 1
        ),
        (
            SELECT number FROM flows WHERE {of} AND queue > here.queue
            ORDER BY queue, pool, {order} LIMIT 1
        )
    )
    FROM first_of_partition AS f CROSS JOIN flows AS here ON here.number = f.number
)
SELECT queue, pool FROM first_of_partition AS f CROSS JOIN flows ON flows.number = f.number
"""
# Flows with a concurrency key are in lines of their own; see `Turns`.
_READY = "status = 'ready' AND concurrency_key IS NULL"
_WAITING_PARTITIONS = _PARTITIONS.format(of="status = 'waiting'", order="wake_at")
_READY_PARTITIONS = _PARTITIONS.format(of=_READY, order="priority DESC, wake_at")
_MAKE_READY = """
UPDATE flows SET status = 'ready' WHERE number IN (
    SELECT number FROM flows WHERE status = 'waiting' AND queue = ? AND pool = ? AND wake_at <= ?
    ORDER BY wake_at LIMIT ?
)
"""
# Flows without a time wait for a message. They are first in the index, so the time is bounded from below.
_NEXT_WAKE = """
SELECT wake_at FROM flows WHERE status = 'waiting' AND queue = ? AND pool = ? AND wake_at > ?
ORDER BY wake_at LIMIT 1
"""
_FIRST_READY = f"""
SELECT -priority, wake_at, number FROM flows WHERE {_READY} AND queue = ? AND pool = ?
ORDER BY priority DESC, wake_at LIMIT ?
"""  # noqa: S608 - our own words
_PAUSED = "SELECT name FROM queue_pauses"
# Two are enough to know: each that is large is read to its end.
_TWO_LARGE = """
SELECT number FROM flows
WHERE number IN (SELECT value FROM json_each(?)) AND length(CAST(input AS BLOB)) > ? LIMIT 2
"""
_IS_LARGE = "SELECT length(CAST(input AS BLOB)) > ? FROM flows WHERE number = ?"
_TAKE = "UPDATE flows SET status = 'running', owner = ?, claims = claims + 1 WHERE number = ?"
_TAKEN = f"SELECT number, {columns(FLOW_FIELDS)} FROM flows WHERE number IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own names

_TAKE_ONE = f"""
UPDATE flows SET status = 'running', owner = ?, claims = claims + 1
WHERE id = ? AND owner IS NULL AND finished_at IS NULL RETURNING {columns(FLOW_FIELDS)}
"""  # noqa: S608 - our own names

MAX_MADE_READY = 5_000
"""How many due flows of a partition one claim makes ready: other writers must get their turn."""

LARGE_INPUT = LARGE_JSON
"""Bytes of an input from which a flow is claimed without others like it."""

_Candidate = tuple[tuple[int, float, int], str, str]
"""Its place in the order, which ends with its number; its queue and its definition."""


def claim(
    connection: sqlite3.Connection,
    lease: Lease,
    definitions: Sequence[str],
    queues: Sequence[str] | None,
    limit: int,
    now: float,
    skipped: Collection[str] = (),
) -> Claimed:
    check_lease(connection, lease)
    update_definitions(connection, lease, definitions)
    wanted = set(pools_of((one for one in definitions if one not in skipped), lease.version))
    paused = frozenset(name for (name,) in connection.execute(_PAUSED))

    def matches(queue: str, definition: str) -> bool:
        return definition in wanted and (queues is None or queue in queues) and queue not in paused

    next_wake, all_ready = _make_due_ready(connection, matches, now)
    settings = queue_settings(connection)
    in_turns = bool(settings) or has_keyed(connection)
    if in_turns:
        turns = Turns(connection, settings, _ready_partitions(connection), matches, limit, now)
        choice, large_left = _choose_in_turns(connection, turns)
        chosen = choice.flows
        next_wake = min((one for one in (next_wake, turns.save(choice)) if one is not None), default=None)
    else:
        chosen, large_left = _choose(connection, matches, limit)
    connection.executemany(_TAKE, [(lease.epoch, number) for number in chosen])
    rows: dict[int, FlowRecord] = {
        number: flow_record(tuple(row)) for number, *row in connection.execute(_TAKEN, (json_list(chosen),))
    }
    more = len(chosen) == limit or large_left or not all_ready
    return Claimed([rows[number] for number in chosen], next_wake, more, in_turns, paused)


def take_flow(connection: sqlite3.Connection, lease: Lease, flow_id: str) -> FlowRecord | None:
    check_lease(connection, lease)
    row = connection.execute(_TAKE_ONE, (lease.epoch, flow_id)).fetchone()
    return None if row is None else flow_record(row)


def _make_due_ready(connection: sqlite3.Connection, matches: Matches, now: float) -> tuple[float | None, bool]:
    """Make the due flows ready; return when the next flow is due, and whether all due flows are ready."""
    wakes: list[float] = []
    all_ready = True
    for queue, definition in connection.execute(_WAITING_PARTITIONS).fetchall():
        if not matches(queue, definition):
            continue
        row = connection.execute(_NEXT_WAKE, (queue, definition, -math.inf)).fetchone()
        if row is not None and row[0] <= now:
            made_ready = connection.execute(_MAKE_READY, (queue, definition, now, MAX_MADE_READY)).rowcount
            all_ready = all_ready and made_ready < MAX_MADE_READY
            row = connection.execute(_NEXT_WAKE, (queue, definition, now)).fetchone()
        if row is not None:
            wakes.append(row[0])
    return min(wakes, default=None), all_ready


def _ready_partitions(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute(_READY_PARTITIONS).fetchall()


def _choose(connection: sqlite3.Connection, matches: Matches, limit: int) -> tuple[list[int], bool]:
    """Return the first flows across all matching partitions, and whether some with large inputs were left."""
    candidates = [
        ((priority, wake_at or 0.0, number), queue, definition)
        for queue, definition in _ready_partitions(connection)
        if matches(queue, definition)
        for priority, wake_at, number in connection.execute(_FIRST_READY, (queue, definition, limit))
    ]
    candidates.sort()
    chosen = _numbers(candidates, limit)
    if not _are_two_large(connection, chosen):
        return chosen, False
    return _numbers(_without_more_large(connection, candidates), limit), True


def _choose_in_turns(connection: sqlite3.Connection, turns: Turns) -> tuple[Choice, bool]:
    """As `_choose`, where queues have settings or flows have concurrency keys."""
    choice = turns.choose()
    if not _are_two_large(connection, choice.flows):
        return choice, False
    first = next(number for number in choice.flows if _is_large(connection, number))
    return turns.choose(leave=lambda number: number != first and _is_large(connection, number)), True


def _numbers(candidates: Iterable[_Candidate], limit: int) -> list[int]:
    return [number for (_, _, number), _, _ in itertools.islice(candidates, limit)]


def _are_two_large(connection: sqlite3.Connection, numbers: Sequence[int]) -> bool:
    return len(connection.execute(_TWO_LARGE, (json_list(numbers), LARGE_INPUT)).fetchall()) == 2


def _is_large(connection: sqlite3.Connection, number: int) -> bool:
    return bool(connection.execute(_IS_LARGE, (LARGE_INPUT, number)).fetchone()[0])


def _without_more_large(connection: sqlite3.Connection, candidates: Iterable[_Candidate]) -> Iterator[_Candidate]:
    """The candidates with the first large one. Behind another one, the rest of its partition is left for later."""
    has_large, left = False, set[tuple[str, str]]()
    for candidate in candidates:
        (_, _, number), queue, definition = candidate
        if (queue, definition) in left:
            continue
        if _is_large(connection, number):
            if has_large:
                left.add((queue, definition))
                continue
            has_large = True
        yield candidate
