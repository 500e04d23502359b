"""DBOS: workflows of steps in SQLite or PostgreSQL through SQLAlchemy.

Settings: plain functions, which run in its threads and are faster here than coroutines; its default pools, of which
larger ones are no faster; SQLite in WAL mode. A job is a workflow on a queue without limits, and with steps only where
it is retried. The queue is asked often (default: every second), for idle starts as often as makes them faster.
"""

import asyncio
import atexit
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from threading import Event
from time import perf_counter

from dbos import DBOS

from benchmarks.engine_peers.cases import (
    ATTEMPTS,
    JOBS,
    LOOP_RATIO,
    RETRIED_JOBS,
    SHORT_LOOP,
    START_P50,
    START_P99,
    STEPS_1,
    STEPS_200,
    WAITING,
    Effort,
    steps_of_a_flow,
)
from benchmarks.engine_peers.loads import (
    IDLE_SECONDS,
    LONGEST_WAIT,
    SHORT_LOOPS,
    Backlog,
    FlakyService,
    Starts,
    Waiting,
    loop_ratio,
)
from benchmarks.engine_peers.systems import System

QUEUE = "jobs"
ASKED_EVERY = 0.05
IDLE_ASKED_EVERY = 0.01


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def flow(steps: int) -> int:
    for number in range(steps):
        step(number)
    return steps


@DBOS.workflow()
def timed_flow(steps: int, seconds: float) -> int:
    """As many steps as it can do in that time."""
    end = perf_counter() + seconds
    for number in range(steps):
        step(number)
        if perf_counter() > end:
            return number + 1
    return steps


class State:
    """What the registered functions report to; DBOS finds them by name, so they cannot be made for each measurement."""

    def __init__(self) -> None:
        self.backlog = Backlog(0)
        self.service = FlakyService()
        self.started = Event()
        self.starts = Starts(self.started)
        self.waiting = Waiting(1)


state = State()


@DBOS.workflow()
def job(number: int) -> None:
    state.backlog.job_done()


@DBOS.step(retries_allowed=True, max_attempts=ATTEMPTS, interval_seconds=0)
def flaky_step(number: int) -> None:
    state.service.call(number)


@DBOS.workflow()
def retried_job(number: int) -> None:
    flaky_step(number)
    state.backlog.job_done()


@DBOS.workflow()
def started_job() -> None:
    state.starts.job_runs()


@DBOS.workflow()
async def waiting_flow(number: int) -> None:
    state.waiting.waits(number)
    await DBOS.sleep_async(3600)


def measure(what: str, system: System, url: str, effort: Effort) -> dict[str, float]:
    _launch(url)
    match what:
        case STEPS_200.name:
            return {what: _steps_a_second(effort, effort.flows_at_once)}
        case STEPS_1.name:
            return {what: _steps_a_second(effort, 1)}
        case JOBS.name:
            return {what: _drained_a_second(job, system.backlog(effort))}
        case RETRIED_JOBS.name:
            return {what: _drained_a_second(retried_job, system.retried_backlog(effort))}
        case LOOP_RATIO.name:
            return {what: _loop_ratio(effort)}
        case WAITING.name:
            return {what: asyncio.run(_waiting_mb(effort))}
    p50, p99 = _start_percentiles(effort)
    return {START_P50.name: p50, START_P99.name: p99}


@cache
def _launch(url: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    DBOS(config={"name": "engine-benchmark", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    # Nobody takes jobs from the queue yet.
    DBOS.register_queue(QUEUE, worker_concurrency=0, polling_interval_sec=ASKED_EVERY)
    atexit.register(DBOS.destroy)


def _steps_a_second(effort: Effort, flows_at_once: int) -> float:
    steps = steps_of_a_flow(flows_at_once)
    flow(steps)
    began = perf_counter()
    under_way = deque(DBOS.start_workflow(flow, steps) for _ in range(flows_at_once))
    flows = 0
    while under_way:
        under_way.popleft().get_result()
        flows += 1
        if perf_counter() - began < effort.seconds:
            under_way.append(DBOS.start_workflow(flow, steps))
    return flows * steps / (perf_counter() - began)


def _drained_a_second(work: Callable[[int], None], jobs: int) -> float:
    # It takes a moment to notice that there is a queue.
    _drained(job, Backlog(1))
    return _drained(work, Backlog(jobs))


def _drained(work: Callable[[int], None], backlog: Backlog) -> float:
    state.backlog = backlog
    for number in range(backlog.jobs):
        DBOS.enqueue_workflow(QUEUE, work, number)
    backlog.begin()
    with _worker(ASKED_EVERY):
        return backlog.drained_a_second()


def _start_percentiles(effort: Effort) -> tuple[float, float]:
    with _worker(IDLE_ASKED_EVERY):
        while state.starts.more(effort):
            state.starts.enqueueing()
            DBOS.enqueue_workflow(QUEUE, started_job)
            assert state.started.wait(LONGEST_WAIT)
            Event().wait(IDLE_SECONDS)
    return state.starts.percentiles()


@contextmanager
def _worker(asked_every: float) -> Iterator[None]:
    queue = DBOS.retrieve_queue(QUEUE)
    assert queue is not None
    queue.set_polling_interval_sec(asked_every)
    queue.set_worker_concurrency(None)
    yield
    queue.set_worker_concurrency(0)
    # By then it has read that.
    Event().wait(2 * asked_every)


def _loop_ratio(effort: Effort) -> float:
    flow(SHORT_LOOP)
    short = _short_loops_seconds()
    began = perf_counter()
    done = timed_flow(effort.loop, effort.loop_seconds)
    long = perf_counter() - began
    return loop_ratio(short + _short_loops_seconds(), long, done)


def _short_loops_seconds() -> float:
    began = perf_counter()
    for _ in range(SHORT_LOOPS):
        flow(SHORT_LOOP)
    return perf_counter() - began


async def _waiting_mb(effort: Effort) -> float:
    """Coroutines here: a thread for each flow that waits would be far worse."""
    await DBOS.start_workflow_async(waiting_flow, 0)
    state.waiting = Waiting(effort.waiting)
    for number in range(effort.waiting):
        await DBOS.start_workflow_async(waiting_flow, number)
    await asyncio.to_thread(state.waiting.all_wait, effort.waiting)
    return state.waiting.megabytes()
