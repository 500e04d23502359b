"""The actions of simulated flows: how often each fails is in its arguments, and counted outside of the engine."""

import asyncio
from typing import Any

import redrive
from redrive import RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.determinism.clock import current_clock
from redrive.testing.fleet.fleet_runner import calls_before

MENDED: set[str] = set()
"""Flows whose broken actions work again."""

PATIENT = RetryPolicy(attempts=None, backoff_seconds=0.3)


async def take(seconds: float) -> None:
    if seconds:
        clock = current_clock()
        await clock.asleep_until(clock.monotonic() + seconds)


@action(name="fleet_work")
async def work(name: str, fails: int = 0, takes: float = 0.0) -> str:
    if takes:
        current_attempt().heartbeat(name)
        await take(takes)
    if calls_before.get() < fails:
        raise ConnectionError(name)
    return name


@action(name="fleet_plain")
def plain(name: str) -> str:
    return name.upper()


@action(name="fleet_broken")
async def broken(name: str) -> str:
    """Fails for good until someone mends it; for "never", nobody does."""
    if name == "never" or current_attempt().flow_id not in MENDED:
        raise redrive.Permanent(name)
    return name


@action(name="fleet_hang")
async def hang(name: str, hangs: int) -> str:
    """Does not end when it is called for the first times, and is cut by its timeout."""
    if calls_before.get() < hangs:
        await asyncio.Event().wait()
    return name


@action(name="fleet_block")
async def block(name: str, seconds: float) -> str:
    """Holds the event loop of its worker when it is called for the first time."""
    clock = current_clock()
    if calls_before.get() == 0:
        clock.sleep_until(clock.monotonic() + seconds)
    return name


@workflow(name="fleet_Program")
class Program(Workflow):
    async def run(self, program: list[Any]) -> Any:
        kind, *rest = program
        match kind:
            case "work":
                return await self.run_action(work(*rest), retry=PATIENT)
            case "plain":
                return await self.run_action(plain(*rest), retry=PATIENT)
            case "broken":
                return await self.run_action(broken(*rest), retry=PATIENT)
            case "hang":
                return await self.run_action(hang(*rest), retry=PATIENT, timeout=0.5)
            case "block":
                return await self.run_action(block(*rest), retry=PATIENT)
            case "sleep":
                return await asyncio.sleep(*rest)
            case "sequence":
                return [await self.run(one) for one in rest]
            case "parallel":
                return list(await asyncio.gather(*(self.run(one) for one in rest)))
            case "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.run(one)) for one in rest]
                return [task.result() for task in tasks]
            case "cut":
                try:
                    async with asyncio.timeout(rest[0]):
                        return await self.run(["sleep", 60])
                except TimeoutError:
                    return await self.run(rest[1])
            case "try":
                try:
                    return await self.run(rest[0])
                except redrive.Permanent:
                    return await self.run(rest[1])
                finally:
                    await self.run(rest[2])


def outcome_of(program: list[Any], mended: bool) -> Any:
    """What the program returns, computed without the engine; redrive.Permanent where it fails."""
    kind, *rest = program
    match kind:
        case "work" | "hang" | "block":
            return rest[0]
        case "plain":
            return rest[0].upper()
        case "broken":
            if rest[0] == "never" or not mended:
                raise redrive.Permanent(rest[0])
            return rest[0]
        case "sequence" | "parallel" | "group":
            return [outcome_of(one, mended) for one in rest]
        case "cut":
            return outcome_of(rest[1], mended)
        case "try":
            try:
                return outcome_of(rest[0], mended)
            except redrive.Permanent:
                return outcome_of(rest[1], mended)
    return None
