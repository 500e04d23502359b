"""What is measured of an engine, and how much of it."""

import msgspec

from benchmarks.figures import Case

STEPS_200 = Case(
    name="steps_200", unit="/s", what="durable steps, 200 flows of 10 steps at once in one process", compared=False
)
STEPS_1 = Case(
    name="steps_1", unit="/s", what="durable steps of flows of 100 steps, one flow after the other", compared=False
)
COMMITS = Case(
    name="commits",
    unit="/s",
    what="one row inserted and committed after the other through the driver itself: the limit for steps_1",
    compared=False,
)
JOBS = Case(
    name="jobs",
    unit="/s",
    what="a backlog of background jobs, from the start of the worker to the last one done, one process",
    compared=False,
)
START_MANY = Case(
    name="start_many",
    unit="/s",
    what="flows with keys that are added to the store by one call",
    compared=False,
)
RETRIED_JOBS = Case(
    name="retried_jobs",
    unit="/s",
    what="the same for jobs that fail twice and then succeed, with the shortest wait the system has",
    compared=False,
)
START_P50 = Case(
    name="start_p50_ms",
    unit="ms",
    what="from enqueueing one job to its function running, with an idle worker in the same process: half are faster "
    "(limit: one row committed after the same pause)",
    compared=False,
)
START_P99 = Case(name="start_p99_ms", unit="ms", what="99 of 100 are faster", compared=False)
LOOP_RATIO = Case(
    name="loop_ratio",
    unit="x",
    what="a flow that runs 10,000 actions in a loop (--quick: 500): its cost per action over that of one with 100",
    compared=False,
)
WAITING = Case(
    name="waiting_mb",
    unit="MB",
    what="memory that 100,000 waiting flows take in the process (from fewer flows where time was short)",
    compared=False,
)

FLOW_CASES = (STEPS_200, STEPS_1, COMMITS, LOOP_RATIO, WAITING)
JOB_CASES = (START_MANY, JOBS, RETRIED_JOBS, START_P50, START_P99)

START = "start"
"""Measured in one go: both percentiles come from the same starts."""

STEPS = 10
LONG_FLOW = 100
"""Steps of each flow where there is one at a time: what a step costs, with the start of the flow a small part of it."""


def steps_of_a_flow(flows_at_once: int) -> int:
    return LONG_FLOW if flows_at_once == 1 else STEPS


"""Steps in a flow."""
ATTEMPTS = 3
"""Of a retried job: two fail."""
SHORT_LOOP = 100
WAITING_FLOWS = 100_000


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    seconds: float
    """How long a rate is measured for; what is under way then is finished."""
    flows_at_once: int = 200
    starts: int
    """Idle starts that are timed, fewer where they add up to `seconds`."""
    loop: int
    """Actions in the long loop."""
    loop_seconds: float
    """Where a system is too slow for that many, what it did in this time counts."""
    waiting: int
    """Flows that wait."""


FULL = Effort(seconds=3.0, starts=200, loop=10_000, loop_seconds=12.0, waiting=WAITING_FLOWS)
QUICK = Effort(seconds=0.5, starts=30, loop=500, loop_seconds=2.0, waiting=5_000)
