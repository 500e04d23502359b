"""Actions of workflows and jobs that are completed by hand."""

import asyncio
from typing import Any

import pytest

from redrive import RetryPolicy, Workflow, action, workflow
from redrive.flows.graphs.outputs import OutputError
from redrive.testing import flow_app


@action(name="counted by hand", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
async def count(of: str) -> int:
    raise ConnectionError("down")


@workflow(name="CountedByHand")
class Counts(Workflow):
    async def run(self) -> int:
        return 1 + await count("sheep")


@pytest.mark.promise("T10")
@pytest.mark.parametrize("is_job", [False, True], ids=["workflow", "job"])
def test_a_result_given_by_hand_is_one_that_the_action_may_return(is_job: bool) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flow: Any = await (app.submit(count("sheep")) if is_job else app.start(Counts))
                await app.settled(flow)
                before = await app.log(flow.id)
                for unfit in ({"n": "many"}, "7", None):
                    with pytest.raises(OutputError, match=r"^step counted by hand: .*Expected `int`, got `"):
                        await app.complete_step(flow.id, "counted by hand", unfit, by="ann", why="went there")
                assert await app.log(flow.id) == before
                await app.complete_step(flow.id, "counted by hand", 7, by="ann", why="went there")
            assert (await app.outcome(flow)).result == (7 if is_job else 8)

    asyncio.run(story())


@workflow(name="ResolvedByHand")
class GoesOnWithout(Workflow):
    async def run(self) -> str:
        counted: int | None = await count("sheep")
        return "nothing was counted" if counted is None else str(counted)


@pytest.mark.promise("T10")
def test_an_action_resolved_by_hand_gives_nothing_whatever_it_should_return() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(GoesOnWithout)
                await app.settled(flow)
                await app.resolve_step(flow.id, "counted by hand", by="ann", why="does not matter")
            assert (await app.outcome(flow)).result == "nothing was counted"

    asyncio.run(story())
