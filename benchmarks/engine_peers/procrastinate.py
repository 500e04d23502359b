"""Procrastinate: jobs in PostgreSQL through psycopg.

Settings: async tasks, 50 at once, a pool to match, jobs deferred in batches, LISTEN/NOTIFY as by default. A retry
without wait is only found by polling, so that is shortened from 5 s to 50 ms.
"""

import asyncio
from typing import Any

import procrastinate

from benchmarks.engine_peers.cases import ATTEMPTS, JOBS, RETRIED_JOBS, START_P50, START_P99, Effort
from benchmarks.engine_peers.loads import Backlog, FlakyService, Starts, run, start_percentiles
from benchmarks.engine_peers.systems import System

AT_ONCE = 50
BATCH = 1_000


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    return run(_measure(what, system, url, effort))


async def _measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=10, max_size=AT_ONCE)
    app = procrastinate.App(connector=connector)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        if what == JOBS.name:
            return {what: await _jobs(app, system.backlog(effort))}
        if what == RETRIED_JOBS.name:
            return {what: await _retried_jobs(app, system.retried_backlog(effort))}
        p50, p99 = await _starts(app, effort)
        return {START_P50.name: p50, START_P99.name: p99}


async def _jobs(app: procrastinate.App, jobs: int) -> float:
    backlog = Backlog(jobs)

    @app.task
    async def job(number: int) -> None:
        backlog.job_done()

    return await _drained(app, job, backlog)


async def _retried_jobs(app: procrastinate.App, jobs: int) -> float:
    backlog, service = Backlog(jobs), FlakyService()

    @app.task(retry=procrastinate.RetryStrategy(max_attempts=ATTEMPTS, wait=0))
    async def job(number: int) -> None:
        service.call(number)
        backlog.job_done()

    return await _drained(app, job, backlog)


async def _drained(app: procrastinate.App, job: Any, backlog: Backlog) -> float:
    for first in range(0, backlog.jobs, BATCH):
        numbers = range(first, min(first + BATCH, backlog.jobs))
        await job.batch_defer_async(*({"number": number} for number in numbers))
    backlog.begin()
    worker = _worker(app)
    rate = await asyncio.to_thread(backlog.drained_a_second)
    await _stopped(worker)
    return rate


async def _starts(app: procrastinate.App, effort: Effort) -> tuple[float, float]:
    starts = Starts(asyncio.Event())

    @app.task
    async def job() -> None:
        starts.job_runs()

    worker = _worker(app)
    percentiles = await start_percentiles(effort, starts, job.defer_async)
    await _stopped(worker)
    return percentiles


def _worker(app: procrastinate.App) -> asyncio.Task[None]:
    return asyncio.create_task(
        app.run_worker_async(concurrency=AT_ONCE, fetch_job_polling_interval=0.05, install_signal_handlers=False)
    )


async def _stopped(worker: asyncio.Task[None]) -> None:
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
