"""What the systems are given to do, and how it is timed: the same for all of them."""

import asyncio
import gc
import itertools
import resource
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.engine_peers.cases import ATTEMPTS, LONG_FLOW, SHORT_LOOP, WAITING_FLOWS, Effort, steps_of_a_flow

T = TypeVar("T")

SHORT_LOOPS = 2
"""Before the long loop, and again after it: what else the machine does is then the same for both."""
# Long enough for a worker to go to sleep again after a job.
IDLE_SECONDS = 0.015
FEWEST_STARTS = 12
LONGEST_WAIT = 60.0


def run(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed, for every system that runs on asyncio."""
    try:
        from uvloop import run as run_fast
    except ImportError:
        return asyncio.run(main)
    return run_fast(main)


class Backlog:
    """Counts jobs that are done, from any thread; the last one ends the measurement."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._numbers = itertools.count(1)
        self._began = self._ended = 0.0
        self._all_done = Event()

    def begin(self) -> None:
        self._began = perf_counter()

    def job_done(self) -> None:
        if next(self._numbers) == self.jobs:
            self._ended = perf_counter()
            self._all_done.set()

    def drained_a_second(self) -> float:
        """Waits for the last job."""
        assert self._all_done.wait(LONGEST_WAIT), f"not all of {self.jobs} jobs were done in {LONGEST_WAIT:g} s"
        return self.jobs / (self._ended - self._began)


class FlakyService:
    """Fails twice for each job, then answers."""

    def __init__(self) -> None:
        self._calls: Counter[int] = Counter()

    def call(self, job: int) -> None:
        self._calls[job] += 1
        if self._calls[job] < ATTEMPTS:
            raise ConnectionError("the service is away")


class Starts:
    """Times how long after it was enqueued each job runs."""

    def __init__(self, running: Event | asyncio.Event) -> None:
        """`running` is of the kind that the enqueuer can wait for."""
        self.running = running
        self._enqueued = 0.0
        self._waits: list[float] = []

    def enqueueing(self) -> None:
        self.running.clear()
        self._enqueued = perf_counter()

    def job_runs(self) -> None:
        self._waits.append(perf_counter() - self._enqueued)
        self.running.set()

    def more(self, effort: Effort) -> bool:
        return len(self._waits) < FEWEST_STARTS or (
            len(self._waits) < effort.starts and sum(self._waits) < effort.seconds
        )

    def percentiles(self) -> tuple[float, float]:
        """p50 and p99 in milliseconds; the first start only warms up."""
        cuts = statistics.quantiles(self._waits[1:], n=100, method="inclusive")
        return cuts[49] * 1e3, cuts[98] * 1e3


async def start_percentiles(
    effort: Effort, starts: Starts, enqueue: Callable[[], Awaitable[object]]
) -> tuple[float, float]:
    """Enqueue one job at a time for a worker in this event loop, each when the worker is idle again."""
    assert isinstance(starts.running, asyncio.Event)
    while starts.more(effort):
        starts.enqueueing()
        await enqueue()
        await asyncio.wait_for(starts.running.wait(), LONGEST_WAIT)
        await asyncio.sleep(IDLE_SECONDS)  # noqa: TID251 - the pause is real
    return starts.percentiles()


async def steps_a_second(effort: Effort, flows_at_once: int, run_flow: Callable[[int], Awaitable[object]]) -> float:
    """Start flows of so many steps for the time given, then let those under way finish."""
    steps = steps_of_a_flow(flows_at_once)
    await run_flow(steps)
    began = perf_counter()
    flows = 0

    async def lane() -> None:
        nonlocal flows
        while perf_counter() - began < effort.seconds:
            await run_flow(steps)
            flows += 1

    await asyncio.gather(*(lane() for _ in range(flows_at_once)))
    return flows * steps / (perf_counter() - began)


async def steps_and_commits_a_second(
    effort: Effort, run_flow: Callable[[int], Awaitable[object]], commit: Callable[[], Awaitable[object]]
) -> tuple[float, float]:
    """One flow after the other, and as long each time bare commits: both then meet the same disk, however it varies."""
    await run_flow(LONG_FLOW)
    flows = commits = 0
    flow_seconds = commit_seconds = 0.0
    while flow_seconds + commit_seconds < 2 * effort.seconds:
        began = perf_counter()
        await run_flow(LONG_FLOW)
        took = perf_counter() - began
        flows += 1
        flow_seconds += took
        began = perf_counter()
        while (seconds := perf_counter() - began) < took:
            await commit()
            commits += 1
        commit_seconds += seconds
    return flows * LONG_FLOW / flow_seconds, commits / commit_seconds


def loop_ratio(short_seconds: float, long_seconds: float, long_loop: int) -> float:
    """Cost per action of the long loop over that of the short ones on both sides of it."""
    return (long_seconds / long_loop) / (short_seconds / (2 * SHORT_LOOPS * SHORT_LOOP))


class Waiting:
    """The memory that waiting flows take. The growth of the second half is drawn out to all, where there are fewer."""

    def __init__(self, flows: int) -> None:
        self._flows = flows
        self._reached = bytearray(flows)
        self._waiting = 0
        self._before = self._half_way = _resident_mb()

    def waits(self, number: int) -> None:
        """A flow has come to its wait; it may come there again when it is replayed."""
        if not self._reached[number]:
            self._reached[number] = True
            self._waiting += 1
            if self._waiting == self._flows // 2:
                self._half_way = _resident_mb()

    def all_wait(self, flows: int) -> None:
        """Block until that many wait."""
        end = perf_counter() + LONGEST_WAIT
        while self._waiting < flows:
            assert perf_counter() < end, f"{self._waiting} of {flows} flows wait after {LONGEST_WAIT:g} s"
            Event().wait(0.002)

    def megabytes(self) -> float:
        gc.collect()
        now = _resident_mb()
        each = max(0.0, now - self._half_way) / (self._flows - self._flows // 2)
        return now - self._before + each * (WAITING_FLOWS - self._flows)


def _resident_mb() -> float:
    """What this process holds right now; where the system does not say, what it held at most."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
