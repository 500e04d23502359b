"""What the stores themselves can do: one row, one commit, through the driver that the engine uses."""

import sqlite3
from time import perf_counter

from benchmarks.engine_peers.cases import COMMITS, Effort
from benchmarks.engine_peers.loads import run
from benchmarks.engine_peers.systems import System

ROW = '{"kind": "attempt_succeeded", "item": 7, "value": {"receipt": "r-1234567890"}}'


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    commits = _sqlite(url, effort) if system.store == "sqlite" else run(_postgres(url, effort))
    return {COMMITS.name: commits}


def _sqlite(url: str, effort: Effort) -> float:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, body TEXT)")
    began, commits = perf_counter(), 0
    while (seconds := perf_counter() - began) < effort.seconds:
        connection.execute("INSERT INTO events (body) VALUES (?)", (ROW,))
        commits += 1
    connection.close()
    return commits / seconds


async def _postgres(url: str, effort: Effort) -> float:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations

    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE events (seq bigserial PRIMARY KEY, body jsonb)")
    began, commits = perf_counter(), 0
    while (seconds := perf_counter() - began) < effort.seconds:
        await connection.execute("INSERT INTO events (body) VALUES ($1)", ROW)
        commits += 1
    await connection.close()
    return commits / seconds
