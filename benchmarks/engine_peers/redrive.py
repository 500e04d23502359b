"""redrive: its defaults. The backlog of jobs is submitted by an app without a worker, then drained by one with."""

import asyncio
from time import perf_counter

import redrive
from benchmarks.engine_peers.cases import (
    ATTEMPTS,
    COMMITS,
    JOBS,
    LOOP_RATIO,
    RETRIED_JOBS,
    SHORT_LOOP,
    START_MANY,
    START_P50,
    START_P99,
    STEPS,
    STEPS_1,
    STEPS_200,
    WAITING,
    Effort,
)
from benchmarks.engine_peers.limits import bare_commits
from benchmarks.engine_peers.loads import (
    SHORT_LOOPS,
    Backlog,
    FlakyService,
    Starts,
    Waiting,
    loop_ratio,
    run,
    start_percentiles,
    steps_a_second,
    steps_and_commits_a_second,
)
from benchmarks.engine_peers.systems import System

SUBMITTED_AT_ONCE = 500


@redrive.action
async def step(number: int) -> int:
    return number


@redrive.workflow
class Steps(redrive.Workflow):
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await self.run_action(step(number))
        return steps


class State:
    """What the registered functions report to; flows find them by name, so they cannot be made for each measurement."""

    def __init__(self) -> None:
        self.backlog = Backlog(0)
        self.service = FlakyService()
        self.starts = Starts(asyncio.Event())
        self.waiting = Waiting(0)


state = State()


@redrive.action
async def job(number: int) -> None:
    state.backlog.job_done()


# By default a wait of zero is lifted to 100 ms; for measuring, the floor is taken away.
AT_ONCE = redrive.Policy(
    attempts=ATTEMPTS,
    retry_on=redrive.ANYTHING,
    backoff=redrive.constant(0),
    jitter=redrive.policies.Jitter("none"),
    deadline=None,
    floor=0.0,
)


@redrive.action(retry=AT_ONCE)
async def retried_job(number: int) -> None:
    state.service.call(number)
    state.backlog.job_done()


@redrive.action
async def started_job() -> None:
    state.starts.job_runs()


@redrive.workflow
class Waits(redrive.Workflow):
    async def run(self, number: int) -> None:
        state.waiting.waits(number)
        await asyncio.sleep(3600)  # noqa: TID251 - in a workflow it is a durable timer


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    match what:
        case STEPS_200.name:
            return {what: run(_steps_a_second(url, effort))}
        case STEPS_1.name:
            steps, commits = run(_steps_and_commits_a_second(url, effort))
            return {what: steps, COMMITS.name: commits}
        case JOBS.name:
            return {what: run(_drained_a_second(url, job, system.backlog(effort)))}
        case RETRIED_JOBS.name:
            return {what: run(_drained_a_second(url, retried_job, system.retried_backlog(effort)))}
        case LOOP_RATIO.name:
            return {what: run(_loop_ratio(url, effort))}
        case START_MANY.name:
            return {what: run(_started_a_second(url, system.backlog(effort)))}
        case WAITING.name:
            return {what: run(_waiting_mb(url, effort))}
    p50, p99 = run(_start_percentiles(url, effort))
    return {START_P50.name: p50, START_P99.name: p99}


async def _steps_a_second(url: str, effort: Effort) -> float:
    async with redrive.open(url) as app:
        return await steps_a_second(effort, effort.flows_at_once, lambda steps: _finished(app, steps))


async def _steps_and_commits_a_second(url: str, effort: Effort) -> tuple[float, float]:
    async with redrive.open(url) as app, bare_commits(url) as commit:
        return await steps_and_commits_a_second(effort, lambda steps: _finished(app, steps), commit)


async def _finished(app: redrive.App, steps: int) -> None:
    handle = await app.start(Steps.call(steps=steps))
    await handle.result()


async def _drained_a_second(url: str, work: redrive.Action[[int], None], jobs: int) -> float:
    state.backlog = Backlog(jobs)
    async with redrive.open(url, worker=False) as app:
        for first in range(0, jobs, SUBMITTED_AT_ONCE):
            numbers = range(first, min(first + SUBMITTED_AT_ONCE, jobs))
            await asyncio.gather(*(app.start(work(number)) for number in numbers))
    state.backlog.begin()
    async with redrive.open(url):
        return await asyncio.to_thread(state.backlog.drained_a_second)


async def _started_a_second(url: str, flows: int) -> float:
    async with redrive.open(url, worker=False) as app:
        # Connections and plans are there before.
        await app.start_many([job(0)])
        began = perf_counter()
        await app.start_many((job(number) for number in range(flows)), keys=map(str, range(flows)))
        return flows / (perf_counter() - began)


async def _start_percentiles(url: str, effort: Effort) -> tuple[float, float]:
    async with redrive.open(url) as app:
        return await start_percentiles(effort, state.starts, lambda: app.start(started_job()))


async def _loop_ratio(url: str, effort: Effort) -> float:
    async with redrive.open(url) as app:
        await _finished(app, SHORT_LOOP)
        short = await _loops_seconds(app, SHORT_LOOPS, SHORT_LOOP)
        long = await _loops_seconds(app, 1, effort.loop)
        short += await _loops_seconds(app, SHORT_LOOPS, SHORT_LOOP)
        return loop_ratio(short, long, effort.loop)


async def _loops_seconds(app: redrive.App, loops: int, steps: int) -> float:
    began = perf_counter()
    for _ in range(loops):
        await _finished(app, steps)
    return perf_counter() - began


async def _waiting_mb(url: str, effort: Effort) -> float:
    async with redrive.open(url) as app:
        await _finished(app, STEPS)
        state.waiting = Waiting(effort.waiting)
        for first in range(0, effort.waiting, SUBMITTED_AT_ONCE):
            numbers = range(first, min(first + SUBMITTED_AT_ONCE, effort.waiting))
            await asyncio.gather(*(app.start(Waits.call(number=number)) for number in numbers))
            await asyncio.to_thread(state.waiting.all_wait, numbers.stop)
        return state.waiting.megabytes()
