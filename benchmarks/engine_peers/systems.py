"""Who takes part, on what store, and what each is asked."""

from collections.abc import Mapping

import msgspec

from benchmarks.engine_peers.cases import (
    COMMITS,
    FULL,
    JOBS,
    LOOP_RATIO,
    QUICK,
    RETRIED_JOBS,
    START,
    START_MANY,
    STEPS_1,
    STEPS_200,
    WAITING,
    Effort,
)

# First what an idle system does: with --quick, one process is asked for all but the last.
ENGINE = (START, STEPS_1.name, STEPS_200.name, JOBS.name, RETRIED_JOBS.name, LOOP_RATIO.name, WAITING.name)
LIMIT = (START, COMMITS.name)
QUEUE = (START, JOBS.name, RETRIED_JOBS.name)

NO_FLOWS = "a queue of jobs, without flows"
NOT_MEASURED = "is not measured here"
NOT_QUICK = "takes too long for --quick"


class System(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    module: str
    """In this package; its `measure` does the work."""
    store: str
    measures: tuple[str, ...]
    not_quick: tuple[str, ...] = ()
    """Measures that only the full run has."""
    jobs_a_second: int = 0
    """About what it drains, so that a backlog lasts as long as is measured."""
    retried_jobs_a_second: int = 0
    full: Effort = FULL
    quick: Effort = QUICK

    def effort(self, quick: bool) -> Effort:
        return self.quick if quick else self.full

    def backlog(self, effort: Effort) -> int:
        return round(self.jobs_a_second * effort.seconds)

    def retried_backlog(self, effort: Effort) -> int:
        return round(self.retried_jobs_a_second * effort.seconds)


def limit_of(system: System) -> str:
    """The system that stands for what the store of this one can do."""
    return f"limit-{system.store}"


def _redrive(store: str) -> System:
    return System(
        name=f"redrive-{store}",
        module="redrive",
        store=store,
        measures=(*ENGINE, START_MANY.name),
        jobs_a_second=10_000,
        retried_jobs_a_second=4_000,
        # It does so much in half a second that opening the store would count.
        quick=msgspec.structs.replace(QUICK, seconds=0.8, starts=50),
    )


def _dbos(store: str) -> System:
    return System(
        name=f"dbos-{store}",
        module="dbos",
        store=store,
        measures=ENGINE,
        not_quick=(LOOP_RATIO.name, WAITING.name),
        jobs_a_second=300,
        retried_jobs_a_second=100,
        # It starts some 300 flows a second.
        full=msgspec.structs.replace(FULL, waiting=1_500),
        # 200 flows would take it ten seconds, and it does as many steps with 20.
        quick=msgspec.structs.replace(QUICK, flows_at_once=20, starts=20),
    )


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(name="limit-sqlite", module="limits", store="sqlite", measures=LIMIT),
        _redrive("sqlite"),
        System(name="limit-postgres", module="limits", store="postgres", measures=LIMIT),
        _redrive("postgres"),
        System(
            name="pgqueuer",
            module="pgqueuer",
            store="postgres",
            measures=QUEUE,
            jobs_a_second=10_000,
            retried_jobs_a_second=350,
        ),
        System(
            name="procrastinate",
            module="procrastinate",
            store="postgres",
            measures=QUEUE,
            jobs_a_second=300,
            retried_jobs_a_second=100,
        ),
        # Last, because it takes longest and time may run out.
        _dbos("sqlite"),
        _dbos("postgres"),
    )
}
