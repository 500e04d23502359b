"""pgqueuer: jobs in PostgreSQL through asyncpg.

Settings: a pool of connections, as its documentation has it for throughput, jobs taken and finished in batches, its
durable tables (the default). Retries are those in the database, without delay.
"""

import asyncio
from datetime import timedelta
from functools import partial

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
from pgqueuer import PgQueuer
from pgqueuer.executors import DatabaseRetryEntrypointExecutor
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.engine_peers.cases import ATTEMPTS, JOBS, RETRIED_JOBS, START_P50, START_P99, Effort
from benchmarks.engine_peers.loads import Backlog, FlakyService, Starts, run, start_percentiles
from benchmarks.engine_peers.systems import System

BATCH = 500
ENTRYPOINT = "job"


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    return run(_measure(what, system, url, effort))


async def _measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    async with asyncpg.create_pool(url, min_size=4, max_size=20) as pool:
        queries, queuer = Queries.from_asyncpg_pool(pool), PgQueuer.from_asyncpg_pool(pool)
        if not await queries.schema_is_installed():
            await queries.install()
        if what == JOBS.name:
            return {what: await _jobs(queries, queuer, system.backlog(effort))}
        if what == RETRIED_JOBS.name:
            return {what: await _retried_jobs(queries, queuer, system.retried_backlog(effort))}
        p50, p99 = await _starts(queries, queuer, effort)
        return {START_P50.name: p50, START_P99.name: p99}


async def _jobs(queries: Queries, queuer: PgQueuer, jobs: int) -> float:
    backlog = Backlog(jobs)

    @queuer.entrypoint(ENTRYPOINT)
    async def job(job: Job) -> None:
        backlog.job_done()

    return await _drained(queries, queuer, backlog)


async def _retried_jobs(queries: Queries, queuer: PgQueuer, jobs: int) -> float:
    backlog, service = Backlog(jobs), FlakyService()
    at_once = partial(DatabaseRetryEntrypointExecutor, max_attempts=ATTEMPTS, initial_delay=timedelta())

    @queuer.entrypoint(ENTRYPOINT, executor_factory=at_once)
    async def job(job: Job) -> None:
        service.call(job.id)
        backlog.job_done()

    return await _drained(queries, queuer, backlog)


async def _drained(queries: Queries, queuer: PgQueuer, backlog: Backlog) -> float:
    await queries.enqueue([ENTRYPOINT] * backlog.jobs, [None] * backlog.jobs, [0] * backlog.jobs)
    backlog.begin()
    worker = asyncio.create_task(queuer.run(batch_size=BATCH))
    rate = await asyncio.to_thread(backlog.drained_a_second)
    await _stopped(queuer, worker)
    return rate


async def _starts(queries: Queries, queuer: PgQueuer, effort: Effort) -> tuple[float, float]:
    starts = Starts(asyncio.Event())

    @queuer.entrypoint(ENTRYPOINT)
    async def job(job: Job) -> None:
        starts.job_runs()

    worker = asyncio.create_task(queuer.run(batch_size=BATCH))
    percentiles = await start_percentiles(effort, starts, lambda: queries.enqueue(ENTRYPOINT, None))
    await _stopped(queuer, worker)
    return percentiles


async def _stopped(queuer: PgQueuer, worker: asyncio.Task[None]) -> None:
    queuer.shutdown.set()
    await worker
