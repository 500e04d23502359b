"""What the engine allows itself, and whether a run kept to it."""

from collections.abc import Container, Sequence

from benchmarks.engine_peers.cases import (
    COMMITS,
    JOBS,
    LOOP_RATIO,
    RETRIED_JOBS,
    START_P50,
    START_P99,
    STEPS_1,
    STEPS_200,
)
from benchmarks.figures import Budget, Case, Figure, value_of

SQLITE, POSTGRES = "redrive-sqlite", "redrive-postgres"

# In the case's unit.
AT_LEAST: tuple[tuple[str, Case, float], ...] = (
    (POSTGRES, STEPS_200, 10_000),
    (SQLITE, STEPS_200, 5_000),
    (POSTGRES, JOBS, 10_000),
    (POSTGRES, RETRIED_JOBS, 4_000),
)
# A flat loop is about 1; the rest is the noise of two measurements.
AT_MOST: tuple[tuple[str, Case, float], ...] = (
    (POSTGRES, START_P50, 3),
    (POSTGRES, START_P99, 10),
    (SQLITE, START_P50, 1),
    (POSTGRES, LOOP_RATIO, 1.2),
    (SQLITE, LOOP_RATIO, 1.2),
)
COMMITS_A_STEP: tuple[tuple[str, str, float], ...] = ((POSTGRES, "limit-postgres", 1.5), (SQLITE, "limit-sqlite", 2.5))
LEAST_CREDIBLE = 0.9


def budgets(figures: Sequence[Figure], cases: Container[str]) -> list[Budget]:
    """Those of these cases for which there are figures."""
    found = []
    for system, case, least in AT_LEAST:
        if case.name in cases and (value := value_of(figures, system, case.name)) is not None:
            what = f"{system} {case.name} at least {least:,g} {case.unit}"
            found.append(Budget(what=what, measured=f"{value:,.0f}", met=value >= least))
    for system, case, most in AT_MOST:
        if case.name in cases and (value := value_of(figures, system, case.name)) is not None:
            what = f"{system} {case.name} at most {most:g} {case.unit}"
            found.append(Budget(what=what, measured=f"{value:.2f}", met=value <= most))
    for system, limit, most in COMMITS_A_STEP:
        steps, commits = value_of(figures, system, STEPS_1.name), value_of(figures, limit, COMMITS.name)
        if STEPS_1.name in cases and steps and commits:
            found.append(_commits_a_step(system, steps, commits, most))
    return found


def _commits_a_step(system: str, steps: float, commits: float, most: float) -> Budget:
    """A step has a commit of its own: where it seems cheaper than one, the two did not meet the same disk.

    What it takes beyond that commit hardly depends on the disk, so the faster the disk, the larger the ratio.
    """
    ratio, commit, beyond = commits / steps, 1e6 / commits, 1e6 / steps - 1e6 / commits
    what = f"{system}: a step of a single flow takes at most {most:g} times a bare commit"
    if ratio < LEAST_CREDIBLE:
        return Budget(what=what, measured=f"{ratio:.2f}, not credible: the disk was busy; run again", met=False)
    return Budget(
        what=what, measured=f"{ratio:.2f} (a commit of {commit:.0f} us, and {beyond:.0f} us)", met=ratio <= most
    )
