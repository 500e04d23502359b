"""Claims where queues have settings or flows have concurrency keys; `redrive.stores.turns` decides."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from redrive.stores.queues import QueueSettings
from redrive.stores.rates import read_rate
from redrive.stores.turns import (
    FORGOTTEN_TURNS,
    MOST_LEVELS,
    Candidate,
    Choice,
    Line,
    LineKind,
    LineName,
    Place,
    QueueState,
    Served,
    choose,
)

# ruff: noqa: S608 - our own names

_SETTINGS = 'SELECT name, "limit", per_key, rate, key_rate, aging FROM queue_limits'
_OWNED = "SELECT queue, count(*) FROM flows WHERE owner IS NOT NULL GROUP BY queue"
_HELD = """
SELECT count(*) FROM flows
WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL AND queue = ? AND concurrency_key = ?
"""
_LEVEL = "SELECT level FROM queue_rates WHERE name = ? AND key = ?"
_NEXT_FREE = "SELECT min(level) FROM queue_rates WHERE name = ? AND level > ? AND key <> ''"
_DROP_LEVELS = "DELETE FROM queue_rates WHERE level <= ? AND name = ?"
_PUT_LEVEL = "INSERT OR REPLACE INTO queue_rates (name, key, level) VALUES (?, ?, ?)"
_TURNS = "SELECT name, definition, kind, priority, key, turn FROM queue_turns"
_PUT_TURN = """
INSERT OR REPLACE INTO queue_turns (name, definition, kind, priority, key, turn) VALUES (?, ?, ?, ?, ?, ?)
"""
_DROP_TURNS = "DELETE FROM queue_turns WHERE name = ? AND turn < ?"

_KEYED = "status = 'ready' AND concurrency_key IS NOT NULL"
_ANY_KEYED = f"SELECT EXISTS (SELECT 1 FROM flows INDEXED BY flows_keyed WHERE {_KEYED})"
# Comparing both columns at once would read all flows of the queue.
_NEXT_POOL = f"""
SELECT queue, pool FROM flows INDEXED BY flows_keyed WHERE {_KEYED} AND queue = ? AND pool > ?
ORDER BY pool LIMIT 1
"""
_NEXT_QUEUE = f"""
SELECT queue, pool FROM flows INDEXED BY flows_keyed WHERE {_KEYED} AND queue > ?
ORDER BY queue, pool LIMIT 1
"""
_OF = {
    "plain": "flows INDEXED BY flows_ready WHERE status = 'ready' AND concurrency_key IS NULL",
    "plain fresh": "flows INDEXED BY flows_ready WHERE status = 'ready' AND concurrency_key IS NULL AND claims = 0",
    "plain begun": "flows INDEXED BY flows_begun WHERE status = 'ready' AND concurrency_key IS NULL AND claims > 0",
    "keyed": f"flows INDEXED BY flows_keyed WHERE {_KEYED} AND (claims > 0) = 0",
    "keyed begun": f"flows INDEXED BY flows_keyed WHERE {_KEYED} AND (claims > 0) = 1",
}
_NEXT_PRIORITY = {
    of: f"SELECT max(priority) FROM {where} AND queue = ? AND pool = ? AND priority < ?" for of, where in _OF.items()
}
_FIRST = "SELECT number, priority, wake_at, claims = 0, concurrency_key FROM {where} AND queue = ? AND pool = ?"
_FIRST_OF_ALL = {
    of: f"{_FIRST.format(where=where)} ORDER BY priority DESC, wake_at LIMIT ?" for of, where in _OF.items()
}
_FIRST_OF_LEVEL = {
    of: f"{_FIRST.format(where=where)} AND priority = ? ORDER BY wake_at LIMIT ?" for of, where in _OF.items()
}
_FIRST_OF_KEY = {
    of: f"{_FIRST.format(where=where)} AND priority = ? AND concurrency_key = ? ORDER BY wake_at LIMIT ?"
    for of, where in _OF.items()
}
_NEXT_KEY = {
    of: f"""
SELECT min(concurrency_key) FROM {where}
    AND queue = ? AND pool = ? AND priority = ? AND concurrency_key > ?
"""
    for of, where in _OF.items()
}

Matches = Callable[[str, str], bool]
"""Whether a claim asks for a queue and a definition."""


def queue_settings(connection: sqlite3.Connection) -> dict[str, QueueSettings]:
    return {
        name: QueueSettings(limit=limit, per_key=per_key, rate=rate, key_rate=key_rate, aging=aging)
        for name, limit, per_key, rate, key_rate, aging in connection.execute(_SETTINGS)
    }


def has_keyed(connection: sqlite3.Connection) -> bool:
    """Whether a ready flow has a concurrency key."""
    return bool(connection.execute(_ANY_KEYED).fetchone()[0])


class Turns:
    """The lines of one claim."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        settings: Mapping[str, QueueSettings],
        partitions: list[tuple[str, str]],
        matches: Matches,
        limit: int,
        now: float,
    ) -> None:
        """partitions: those with ready flows that have no concurrency key."""
        self._connection, self._limit, self._now = connection, limit, now
        owned = dict(connection.execute(_OWNED)) if settings else {}
        self._queues = {name: QueueState(one, owned.get(name, 0)) for name, one in settings.items()}
        self._held: dict[Place, int] = {}
        self._levels: dict[Place, float] = {}
        self._served = {
            LineName(name, definition, kind, priority): Served(key, turn)
            for name, definition, kind, priority, key, turn in connection.execute(_TURNS)
        }
        self._lines: list[Line] = []
        for queue, state in self._queues.items():
            if state.settings.rate is not None:
                self._read_level(queue, "")
        full = {name for name, state in self._queues.items() if state.is_full}
        for queue, definition in partitions:
            if matches(queue, definition) and queue not in full:
                self._add_plain(queue, definition)
        for queue, definition in self._keyed_partitions():
            if matches(queue, definition) and queue not in full:
                self._add_keyed(queue, definition)

    def choose(self, leave: Callable[[Any], bool] | None = None) -> Choice:
        """leave: whether a flow is not taken this time."""
        lines = self._lines
        if leave is not None:
            lines = [
                line._replace(candidates=[one for one in line.candidates if not leave(one.flow)]) for line in lines
            ]
        return choose(lines, self._queues, self._held, self._levels, self._limit, self._now)

    def save(self, choice: Choice) -> float | None:
        """Write what the choice used; return when a rate next lets a flow begin that waits for it."""
        execute, wakes = self._connection.execute, [] if choice.next_wake is None else [choice.next_wake]
        for name, served in choice.served.items():
            execute(_PUT_TURN, (*name, *served))
            execute(_DROP_TURNS, (name.queue, served.turn - FORGOTTEN_TURNS))
        for (queue, key), level in choice.levels.items():
            execute(_PUT_LEVEL, (queue, key, level))
        for queue, (settings, _) in self._queues.items():
            if settings.rate is None and settings.key_rate is None:
                continue
            execute(_DROP_LEVELS, (self._now, queue))
            if settings.key_rate is not None:
                (level,) = execute(_NEXT_FREE, (queue, settings.closed_above(self._now))).fetchone()
                if level is not None:
                    wakes.append(read_rate(settings.key_rate).free_at(level))
        return min(wakes, default=None)

    def _keyed_partitions(self) -> Iterator[tuple[str, str]]:
        here = ("", "")
        execute = self._connection.execute
        while found := execute(_NEXT_POOL, here).fetchone() or execute(_NEXT_QUEUE, here[:1]).fetchone():
            here = found
            yield here

    def _add_plain(self, queue: str, definition: str) -> None:
        settings = self._queues[queue].settings if queue in self._queues else QueueSettings()
        kinds: dict[LineKind, str] = {"plain": "plain"}
        if settings.rate is not None:
            kinds = {"plain begun": "plain begun", "plain": "plain fresh"}
        for kind, of in kinds.items():
            if settings.aging is None:
                rows = self._connection.execute(_FIRST_OF_ALL[of], (queue, definition, self._limit))
                self._add(LineName(queue, definition, kind, 0), rows)
            else:
                for priority in self._priorities(of, queue, definition):
                    rows = self._connection.execute(_FIRST_OF_LEVEL[of], (queue, definition, priority, self._limit))
                    self._add(LineName(queue, definition, kind, priority), rows)

    def _add_keyed(self, queue: str, definition: str) -> None:
        settings = self._queues[queue].settings if queue in self._queues else QueueSettings()
        kinds: tuple[LineKind, ...] = ("keyed begun", "keyed")
        for kind in kinds:
            found = 0
            for priority in self._priorities(kind, queue, definition):
                name = LineName(queue, definition, kind, priority)
                keys = list(self._keys(name, settings))
                each = -(-self._limit // len(keys)) if keys else 0
                rows = [
                    self._connection.execute(_FIRST_OF_KEY[kind], (queue, definition, priority, key, each)).fetchall()
                    for key in keys
                ]
                # The first flow of each key, then the second of each.
                in_turns = [of_key[rank] for rank in range(each) for of_key in rows if rank < len(of_key)]
                self._add(name, in_turns)
                found += len(in_turns)
                if found >= self._limit and settings.aging is None:
                    break

    def _priorities(self, of: str, queue: str, definition: str) -> Iterator[int]:
        priority = 2**62
        for _ in range(MOST_LEVELS):
            (priority,) = self._connection.execute(_NEXT_PRIORITY[of], (queue, definition, priority)).fetchone()
            if priority is None:
                return
            yield priority

    def _keys(self, name: LineName, settings: QueueSettings) -> Iterator[str]:
        """The next keys whose flows may go, behind the one that was served last."""
        last, left = self._served.get(name, Served()).key, self._limit
        start, is_second_half = last, False
        key = start
        while left:
            row = (name.queue, name.definition, name.priority, key)
            (found,) = self._connection.execute(_NEXT_KEY[name.kind], row).fetchone()
            if found is None or (is_second_half and found > last):
                if is_second_half or not last:
                    return
                is_second_half, key = True, ""
                continue
            key = found
            if self._may_go(name, key, settings):
                left -= 1
                yield key

    def _may_go(self, name: LineName, key: str, settings: QueueSettings) -> bool:
        place = name.queue, key
        if settings.per_key is not None:
            if place not in self._held:
                self._held[place] = self._connection.execute(_HELD, place).fetchone()[0]
            if self._held[place] >= settings.per_key:
                return False
        if settings.key_rate is None or name.kind == "keyed begun":
            return True
        level = self._read_level(*place)
        return level is None or level <= settings.closed_above(self._now)

    def _read_level(self, queue: str, key: str) -> float | None:
        row = self._connection.execute(_LEVEL, (queue, key)).fetchone()
        if row is None:
            return None
        self._levels[queue, key] = row[0]
        return float(row[0])

    def _add(self, name: LineName, rows: Any) -> None:
        candidates = [
            Candidate(flow, priority, wake_at or 0.0, key, bool(fresh)) for flow, priority, wake_at, fresh, key in rows
        ]
        if candidates:
            self._lines.append(Line(name, self._served.get(name, Served()), candidates))
