"""What the stores themselves can do: one row, one commit, through the driver that the engine uses.

As fast as it goes, and with the pauses that an idle worker has: disks and processors need time to wake up.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from benchmarks.engine_peers.cases import COMMITS, START_P50, START_P99, Effort
from benchmarks.engine_peers.loads import Starts, run, start_percentiles
from benchmarks.engine_peers.systems import System

ROW = '{"kind": "attempt_succeeded", "item": 7, "value": {"receipt": "r-1234567890"}}'


Commit = Callable[[], Awaitable[Any]]


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    return run(_measure(what, url, effort))


async def _measure(what: str, url: str, effort: Effort) -> dict[str, float]:
    async with bare_commits(url) as commit:
        return await _measured(what, commit, effort)


@asynccontextmanager
async def bare_commits(url: str) -> AsyncIterator[Commit]:
    """Gives what inserts and commits one row in the store at `url`."""
    async with _sqlite(url) if url.startswith("sqlite:") else _postgres(url) as commit:
        yield commit


@asynccontextmanager
async def _sqlite(url: str) -> AsyncIterator[Commit]:
    # A file of its own: writers of one wait for each other.
    connection = sqlite3.connect(f"{url.removeprefix('sqlite:///')}-limit", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, body TEXT)")

    async def commit() -> None:
        connection.execute("INSERT INTO events (body) VALUES (?)", (ROW,))

    yield commit
    connection.close()


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[Commit]:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations

    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS events (seq bigserial PRIMARY KEY, body jsonb)")
    yield lambda: connection.execute("INSERT INTO events (body) VALUES ($1)", ROW)
    await connection.close()


async def _measured(what: str, commit: Commit, effort: Effort) -> dict[str, float]:
    if what == COMMITS.name:
        return {COMMITS.name: await _a_second(commit, effort)}
    starts = Starts(asyncio.Event())

    async def commit_after_a_pause() -> None:
        await commit()
        starts.job_runs()

    p50, p99 = await start_percentiles(effort, starts, commit_after_a_pause)
    return {START_P50.name: p50, START_P99.name: p99}


async def _a_second(commit: Commit, effort: Effort) -> float:
    began, commits = perf_counter(), 0
    while (seconds := perf_counter() - began) < effort.seconds:
        await commit()
        commits += 1
    return commits / seconds
