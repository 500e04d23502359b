"""Claims where queues have settings or flows have concurrency keys; `redrive.stores.turns` decides."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from redrive.stores.claimed import Claimed
from redrive.stores.leases import Lease
from redrive.stores.postgres import turn_statements as statements
from redrive.stores.postgres.columns import FLOW, flow_record
from redrive.stores.queues import SETTINGS, QueueSettings
from redrive.stores.rates import read_rate
from redrive.stores.refusals import lease_lost
from redrive.stores.turns import FORGOTTEN_TURNS, Candidate, Choice, Line, LineName, Place, QueueState, Served, choose


async def claim_in_turns(
    connection: Any,
    lease: Lease,
    definitions: Sequence[str],
    queues: Sequence[str] | None,
    limit: int,
    now: float,
    number: int,
) -> Claimed:
    """Claim with a few statements in a transaction of the caller's."""
    wanted = definitions, queues
    locked = {name for (name,) in await connection.fetch(statements.LOCK_SETTINGS, queues, now)}
    ((more, next_wake, paused, has_settings),) = await connection.fetch(statements.MAKE_READY, *wanted, now)
    states, levels, wakes = await _states(connection, queues, now)
    left_out = {name for name, state in states.items() if name not in locked or state.is_full}
    states = {name: state for name, state in states.items() if name not in left_out}
    lines = await _lines(connection, wanted, limit, states, left_out, now)
    held = await _held(connection, lines, states, levels)
    choice = choose(lines, states, held, levels, limit, now)
    rows = await connection.fetch(statements.TAKE, lease.epoch, choice.flows, number)
    if not rows:
        raise lease_lost(lease)
    flows = {row["id"]: flow_record(row[: len(FLOW)]) for row in rows if row["id"] is not None}
    await _save(connection, choice, states, now)
    wakes += [one for one in (next_wake, choice.next_wake) if one is not None]
    is_limited = has_settings or any(line.is_keyed for line in lines)
    return Claimed(
        [flows[one] for one in choice.flows if one in flows],
        min(wakes, default=None),
        more or len(choice.flows) == limit,
        is_limited,
        frozenset(paused),
    )


async def _states(
    connection: Any, queues: Sequence[str] | None, now: float
) -> tuple[dict[str, QueueState], dict[Place, float], list[float]]:
    """Return the queues with settings, the levels of their rates, and when a key's rate next lets a flow begin."""
    states: dict[str, QueueState] = {}
    levels: dict[Place, float] = {}
    wakes: list[float] = []
    for name, *values, owned, level, next_level in await connection.fetch(statements.STATES, queues, now):
        settings = QueueSettings(**dict(zip(SETTINGS, values, strict=True)))
        states[name] = QueueState(settings, owned)
        if level is not None:
            levels[name, ""] = level
        if settings.key_rate is not None and next_level is not None:
            free_at = read_rate(settings.key_rate).free_at(next_level)
            if free_at > now:
                wakes.append(free_at)
    return states, levels, wakes


async def _lines(
    connection: Any,
    wanted: tuple[Sequence[str], Sequence[str] | None],
    limit: int,
    states: dict[str, QueueState],
    left_out: set[str],
    now: float,
) -> list[Line]:
    settings = [state.settings for state in states.values()]
    rows = await connection.fetch(
        statements.CANDIDATES,
        *wanted,
        limit,
        list(states),
        [one.rate is not None for one in settings],
        [one.aging is not None for one in settings],
        [one.per_key for one in settings],
        [None if (level := one.closed_above(now)) == math.inf else level for one in settings],
        list(left_out),
    )
    # The first flow of each key, then the second of each.
    in_order = sorted(map(tuple, rows), key=lambda row: (row[:4], row[7], row[6]))
    lines: list[Line] = []
    for name, of_line in groupby(in_order, key=lambda row: LineName(*row[:4])):
        all_rows = list(of_line)
        _, _, _, _, key, turn, *_ = all_rows[0]
        candidates = [
            Candidate(flow, priority, wake_at, concurrency_key, fresh)
            for *_, flow, priority, wake_at, concurrency_key, fresh in all_rows
        ]
        lines.append(Line(name, Served(key or "", turn or 0), candidates))
    return lines


async def _held(
    connection: Any, lines: Sequence[Line], states: dict[str, QueueState], levels: dict[Place, float]
) -> dict[Place, int]:
    """Return how many flows of the candidates' keys are owned; add the levels of their rates."""
    wanted = {
        (line.name.queue, one.key)
        for line in lines
        if line.is_keyed and (state := states.get(line.name.queue)) is not None and state.settings.is_per_key
        for one in line.candidates
        if one.key is not None
    }
    if not wanted:
        return {}
    held: dict[Place, int] = {}
    queues, keys = (list(names) for names in zip(*wanted, strict=True))
    for queue, key, number, level in await connection.fetch(statements.KEYS, queues, keys):
        held[queue, key] = number
        if level is not None:
            levels[queue, key] = level
    return held


async def _save(connection: Any, choice: Choice, states: dict[str, QueueState], now: float) -> None:
    rated = [name for name, one in states.items() if one.settings.rate or one.settings.key_rate]
    if rated:
        await connection.execute(statements.DROP_LEVELS, rated, now)
    if choice.levels:
        names, keys = (list(column) for column in zip(*choice.levels, strict=True))
        await connection.execute(statements.PUT_LEVELS, names, keys, list(choice.levels.values()))
    if choice.served:
        rows = [(*name, *served) for name, served in choice.served.items()]
        await connection.execute(statements.PUT_TURNS, *map(list, zip(*rows, strict=True)))
        turns: dict[str, int] = {}
        for name, served in choice.served.items():
            turns[name.queue] = max(turns.get(name.queue, 0), served.turn)
        oldest = [turn - FORGOTTEN_TURNS for turn in turns.values()]
        if any(turn > 0 for turn in oldest):
            await connection.execute(statements.DROP_TURNS, list(turns), oldest)
