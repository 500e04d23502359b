"""Steps that limit how many of their items run at once."""

import asyncio

import pytest

import redrive
from redrive import RetryPolicy, action, current_attempt
from redrive.flows.events import AttemptStarted
from redrive.flows.graphs.graph import Graph
from redrive.testing import FlowOutcome, flow_app

ITEMS = 600
AT_ONCE = [0, 0]
FAILED: set[int] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    AT_ONCE[:] = [0, 0]
    FAILED.clear()


@action(name="lanes.pack")
async def pack(line: int) -> int:
    AT_ONCE[0] += 1
    AT_ONCE[1] = max(AT_ONCE)
    try:
        for _ in range(5):
            await asyncio.sleep(0)
        if line not in FAILED:
            FAILED.add(line)
            raise ConnectionError("away")
        return line
    finally:
        AT_ONCE[0] -= 1


@action(name="lanes.charge")
async def charge(line: int) -> int:
    raise ConnectionError("the service is down")


AT_ONCE_AGAIN = redrive.Policy(
    attempts=3,
    backoff=redrive.constant(0),
    jitter=redrive.policies.Jitter("none"),
    floor=0.0,
    retry_on=redrive.ANYTHING,
    deadline=None,
)
PACKING = Graph("lanes-packing").step(
    "pack",
    pack,
    inputs={"line": {"type": "integer", "from": "lines"}},
    for_each="line",
    outputs={"boxes": "integer"},
    parallelism=1,
    retry=AT_ONCE_AGAIN,
)
CHARGING = Graph("lanes-charging").step(
    "charge",
    charge,
    inputs={"line": {"type": "integer", "from": "lines"}},
    for_each="line",
    outputs={"paid": "integer"},
    parallelism=2,
    dependency="payments",
    retry=RetryPolicy(attempts=4, backoff_seconds=1),
)


@pytest.mark.promise("A15")
def test_an_item_that_is_retried_at_once_stays_in_its_lane() -> None:
    async def story() -> None:
        async with flow_app() as app:
            handle = await app.start(PACKING.call({"lines": list(range(6))}))
            outcome = await app.outcome(handle)
            assert outcome.result == {"boxes": list(range(6))}

    asyncio.run(story())
    assert AT_ONCE[1] == 1


@pytest.mark.promise("A15")
def test_a_lane_of_many_items_is_put_off_when_the_circuit_opens() -> None:
    """One after the other leaves the lane: were that nested, there would be no end to the calls."""

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(CHARGING.call({"lines": list(range(ITEMS))}))
                await app.settled(flow)
                told = await app.explain(flow.id)
            assert "payments" in str(told)
            await flow.cancel(by="me", why="seen enough", force=True)
            assert (await app.outcome(flow)).status == "cancelled"

    asyncio.run(story())


@pytest.mark.promise("A9", "A15")
def test_an_item_that_waited_for_its_lane_in_a_pause_keeps_the_time_of_its_retry() -> None:
    may_end = [asyncio.Event(), asyncio.Event()]

    @action(name="lanes.label")
    async def label(line: int) -> int:
        if line == 0:
            await may_end[0].wait()
        elif current_attempt().number == 1:
            raise ConnectionError("away")
        return line

    @action(name="lanes.load")
    async def load(truck: int) -> int:
        await may_end[1].wait()
        return truck

    graph = (
        Graph("lanes-pause")
        .step(
            "label",
            label,
            inputs={"line": {"type": "integer", "from": "lines"}},
            for_each="line",
            outputs={"labels": "integer"},
            parallelism=1,
            retry=RetryPolicy(attempts=2, backoff_seconds=60, jitter=0),
        )
        .step("load", load, inputs={"truck": "integer"}, outputs={"loaded": "integer"})
    )

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            flow = await app.start(graph.call({"lines": [0, 1], "truck": 7}))
            await app.until(lambda: len(app.witness.executed) == 2)
            run = app._worker.flows.by_id[flow.id] if app._worker else None
            assert run is not None
            await flow.pause()
            await app.until(lambda: run.log.history.paused)
            may_end[0].set()
            await app.until(lambda: run.starter.active == 1)  # the truck keeps the flow in memory
            await flow.resume()
            await app.until(lambda: len(app.witness.executed) >= 3)
            may_end[1].set()
            return await app.outcome(flow)

    outcome = asyncio.run(story())
    begun = [line.at - outcome.began for line in outcome.lines if isinstance(line.event, AttemptStarted)]
    assert begun == [0, 60]
