"""The durable engine and its peers: `python -m benchmarks.engine [--json] [--quick] [--only SYSTEM ...]`.

Each measurement runs in a process of its own on an empty store; PostgreSQL is one server with fsync on. With --quick a
system has one process for all but that of memory, and everything must be done in QUICK_SECONDS.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import msgspec

from benchmarks.engine_budgets import budgets
from benchmarks.engine_peers.cases import (
    COMMITS,
    FLOW_CASES,
    JOB_CASES,
    LOOP_RATIO,
    START,
    START_MANY,
    START_P50,
    START_P99,
    STEPS_1,
    STEPS_200,
    WAITING,
)
from benchmarks.engine_peers.systems import NO_FLOWS, NOT_MEASURED, NOT_QUICK, QUEUE, SYSTEMS, System, limit_of
from benchmarks.figures import Case, Figure, Outcome, progress, show, step

QUICK_SECONDS = 44.0
LONGEST_RUN = 120.0
"""Of one process: a system that hangs must not hang the others."""

LeftOut = dict[tuple[str, str], str]


def main() -> None:
    options = _arguments()
    systems = [SYSTEMS[name] for name in options.only or SYSTEMS]
    # Where redrive is measured too, the store's commits are counted in turns with its steps.
    counted = {limit_of(system) for system in systems if system.module == "redrive"}
    runs = [
        (system, tuple(one for one in measures if one != COMMITS.name or system.name not in counted))
        for system in systems
        for measures in _processes(system, options.quick)
    ]
    runs = [(system, measures) for system, measures in runs if measures]
    end = perf_counter() + (QUICK_SECONDS if options.quick else LONGEST_RUN * len(runs))
    figures: list[Figure] = []
    left_out: LeftOut = {}
    with progress(steps=len(runs)) as bar, _stores(systems) as fresh_store:
        for system, measures in runs:
            step(bar, f"{system.name}: {', '.join(measures)}")
            seconds = min(LONGEST_RUN, end - perf_counter())
            if seconds > 1:
                found, why = _measure(system, measures, fresh_store(system), options.quick, seconds)
            else:
                found, why = [], "no time was left"
            figures += found
            left_out |= {(system.name, case): why for case in _missing(measures, found)}
    for system in systems:
        left_out |= _not_asked(system, options.quick)
    if options.json:
        show(Outcome(title="", cases=(), figures=figures), as_json=True)
        return
    for title, cases in (("flows: one process, every commit on disk", FLOW_CASES), ("background jobs", JOB_CASES)):
        show(_outcome(title, cases, figures, left_out), as_json=False)


def _outcome(title: str, cases: Sequence[Case], figures: Sequence[Figure], left_out: LeftOut) -> Outcome:
    """What these cases have to show; all in one table would be too wide for a terminal."""
    names = {case.name for case in cases}
    return Outcome(
        title=title,
        cases=cases,
        figures=[one for one in figures if one.case in names],
        left_out={place: why for place, why in left_out.items() if place[1] in names},
        budgets=budgets(figures, names),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="The durable engine, side by side with DBOS, Procrastinate and pgqueuer."
    )
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON array")
    parser.add_argument("--quick", action="store_true", help="less of everything: rougher figures in less than 50 s")
    parser.add_argument(
        "--only", nargs="+", choices=SYSTEMS, metavar="SYSTEM", help=f"only these of {', '.join(SYSTEMS)}"
    )
    return parser.parse_args()


def _processes(system: System, quick: bool) -> Iterator[tuple[str, ...]]:
    """What each process of a system measures."""
    if not quick:
        yield from ((one,) for one in system.measures)
        return
    # Memory is only worth a figure in a process that did nothing else.
    alone = {WAITING.name}
    yield tuple(one for one in system.measures if one not in system.not_quick and one not in alone)
    yield from ((one,) for one in system.measures if one in alone and one not in system.not_quick)


@contextmanager
def _stores(systems: Sequence[System]) -> Iterator[Callable[[System], str]]:
    """Gives out the address of an empty store for each run."""
    from tests.postgres_server import PostgresServer

    server = PostgresServer(durable=True) if any(system.store == "postgres" for system in systems) else None
    with tempfile.TemporaryDirectory(prefix="redrive-engine-") as folder:

        def fresh_store(system: System) -> str:
            if system.store == "postgres":
                assert server is not None
                return server.fresh_database()
            return f"sqlite:///{tempfile.mkdtemp(dir=folder)}/engine.db"

        try:
            yield fresh_store
        finally:
            if server is not None:
                server.remove()


def _measure(
    system: System, measures: Sequence[str], url: str, quick: bool, seconds: float
) -> tuple[list[Figure], str]:
    """The figures of one process, and why there are no more of them."""
    command = [sys.executable, "-m", "benchmarks.engine_peers.measure", system.name, url]
    command += ["quick" if quick else "full", *measures]
    root = Path(__file__).parents[1]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root)
    try:
        printed, said = process.communicate(timeout=seconds)
        why = f"it failed: {said.strip().rpartition(chr(10))[2]}"
    except subprocess.TimeoutExpired:
        process.kill()
        printed, _ = process.communicate()
        why = f"not done within {seconds:.0f} s"
    return [msgspec.json.decode(line, type=Figure) for line in printed.splitlines()], why


def _missing(measures: Sequence[str], found: Sequence[Figure]) -> list[str]:
    expected = [case for one in measures for case in _cases(one)]
    return [case for case in expected if case not in {figure.case for figure in found}]


def _cases(measure: str) -> tuple[str, ...]:
    return (START_P50.name, START_P99.name) if measure == START else (measure,)


def _not_asked(system: System, quick: bool) -> LeftOut:
    """Why a peer has no figure in a case."""
    if system.measures == QUEUE:
        flows = (STEPS_200, STEPS_1, LOOP_RATIO, WAITING)
        return {(system.name, case.name): NO_FLOWS for case in flows} | {(system.name, START_MANY.name): NOT_MEASURED}
    left_out = {(system.name, case): NOT_QUICK for case in system.not_quick if quick}
    if START_MANY.name not in system.measures:
        left_out[system.name, START_MANY.name] = NOT_MEASURED
    return left_out


if __name__ == "__main__":
    main()
