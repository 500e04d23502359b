"""How soon a client sees the result of another process's worker: `python -m benchmarks.results [--json] [--quick]`.

One process starts a job and waits for its result; another one, which has nothing else to do, runs it.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import redrive
from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, show
from redrive import action
from redrive.determinism.clock import SYSTEM_CLOCK

P50 = Case(name="result_p50_ms", unit="ms", what="from the start of a job to its result, median", compared=False)
P90 = Case(name="result_p90_ms", unit="ms", what="the same, 90 % of all jobs", compared=False)
COMMIT = Case(
    name="commit_p50_ms", unit="ms", what="one bare commit in the same store; a job needs three", compared=False
)
GOAL = 10.0
PAUSE = 0.02
"""Seconds between two jobs, so that each meets a worker that has gone idle."""


@action(name="benchmarks.results.double")
async def double(n: int) -> int:
    return 2 * n


async def serve(address: str) -> None:
    """Run a worker until nobody writes to it any more."""
    async with redrive.open(address):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def measure(address: str, jobs: int) -> list[float]:
    """How many milliseconds each job took."""
    taken: list[float] = []
    async with redrive.open(address, worker=False) as app:
        for n in range(jobs + 5):
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PAUSE)
            began = perf_counter()
            handle = await app.start(double(n))
            await handle.result(timeout=30)
            taken.append((perf_counter() - began) * 1000)
    # The first ones open connections.
    return taken[5:]


async def commits(address: str, number: int) -> list[float]:
    """How many milliseconds a bare commit takes, after the same pause."""
    taken: list[float] = []
    async with redrive.open(address, worker=False) as app:
        for n in range(number):
            await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + PAUSE)
            began = perf_counter()
            await app.store.configure_queue("benchmark", {"limit": n + 1})
            taken.append((perf_counter() - began) * 1000)
    return taken


@contextmanager
def worker(address: str) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.results", "--serve", address]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(sys.argv[2]))
        return
    options = arguments("How soon a client sees the result of another process's worker.")
    from tests.postgres_server import PostgresServer

    jobs, figures, budgets = 50 if options.quick else 300, [], []
    server = PostgresServer(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="redrive-results-") as folder:
            for system, address in (
                ("redrive, SQLite", f"sqlite:///{folder}/results.db"),
                ("redrive, PostgreSQL", server.fresh_database()),
            ):
                with worker(address):
                    taken = asyncio.run(measure(address, jobs))
                p50, bare = median(taken), median(asyncio.run(commits(address, jobs)))
                for case, value in ((P50, p50), (P90, quantiles(taken, n=10)[-1]), (COMMIT, bare)):
                    figures.append(Figure(system=system, case=case.name, value=value, unit=case.unit))
                budgets.append(
                    Budget(what=f"{system}: p50 at most {GOAL:g} ms", measured=f"{p50:.1f} ms", met=p50 <= GOAL)
                )
    finally:
        server.remove()
    show(
        Outcome(title="results of another process", cases=(P50, P90, COMMIT), figures=figures, budgets=budgets),
        options.json,
    )


if __name__ == "__main__":
    main()
