"""Workflows with children, for the tests."""

import asyncio
from typing import Any

import redrive
from redrive import FlowCancelledError, Workflow, action, workflow
from redrive.errors import ChildFailedError


@action(name="family.double")
async def double(number: int) -> int:
    return 2 * number


@action(name="family.refuse")
async def refuse(number: int) -> int:
    raise redrive.Permanent(f"no {number}")


@workflow(name="family.Child")
class Child(Workflow):
    async def run(self, number: int) -> int:
        return await double(number) + 1


@workflow(name="family.Failing")
class Failing(Workflow):
    async def run(self, number: int) -> int:
        return await refuse(number)


@workflow(name="family.Sleeper")
class Sleeper(Workflow):
    async def run(self, seconds: float = 86_400.0, children: int = 0) -> str:
        below = [await workflow.start_child(Sleeper.call(seconds)) for _ in range(children)]
        await asyncio.sleep(seconds)
        for child in below:
            await child
        return "slept"


@workflow(name="family.Crowd")
class Crowd(Workflow):
    async def run(self, count: int, runs: int = 1) -> int:
        """Start that many children at once, and sum what they return; in as many runs."""
        children = await asyncio.gather(*(workflow.start_child(Child.call(number)) for number in range(count)))
        total = sum(await asyncio.gather(*(child.result() for child in children)))
        if runs > 1:
            workflow.continue_as_new(count, runs - 1)
        return total


@workflow(name="family.Parent")
class Parent(Workflow):
    """Children of all kinds: awaited in order and at once, one that fails, one that is cancelled."""

    async def run(self, count: int) -> dict[str, Any]:
        first = await workflow.start_child(Child.call(1))
        found: dict[str, Any] = {"first": await first.result()}
        many = await asyncio.gather(*(workflow.start_child(Child.call(number)) for number in range(count)))
        found["many"] = await asyncio.gather(*(child.result() for child in many))
        found["job"] = await (await workflow.start_child(double(21)))
        failing = await workflow.start_child(Failing.call(7))
        try:
            await failing
        except ChildFailedError as error:
            found["failed"] = [error.flow_id == failing.id, error.definition, error.error_type, error.message]
        sleeper = await workflow.start_child(Sleeper.call())
        try:
            async with asyncio.timeout(10):
                await sleeper.result()
        except TimeoutError:
            sleeper.cancel()
        try:
            await sleeper
        except FlowCancelledError:
            found["cancelled"] = True
        return found


EXPECTED = {
    "first": 3,
    "many": [1, 3, 5],
    "job": 42,
    "failed": [True, "workflow:family.Failing", "redrive.errors.Permanent", "no 7"],
    "cancelled": True,
}


@workflow(name="family.Head")
class Head(Workflow):
    """Starts sleepers, each with children of its own, and ends or waits."""

    async def run(self, how: str, parent_close: str = "cancel") -> list[str]:
        children = [
            await workflow.start_child(Sleeper.call(3600.0, 2), parent_close=parent_close)  # type: ignore[arg-type]
            for _ in range(2)
        ]
        if how == "ends":
            return [child.id for child in children]
        if how == "fails":
            raise ValueError("no")
        return [await child for child in children]


@workflow(name="family.Endless")
class Endless(Workflow):
    async def run(self, level: int) -> int:
        child = await workflow.start_child(Endless.call(level + 1))
        try:
            return await child
        except ChildFailedError as error:
            if "was not started" not in str(error):
                raise
            return level


@workflow(name="runs.Fast")
class Fast(Workflow):
    async def run(self, runs: int, done: int = 0) -> int:
        await double(1)
        if done + 1 < runs:
            workflow.continue_as_new(runs, done + 1)
        return done + 1
