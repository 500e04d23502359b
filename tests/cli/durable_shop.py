"""Workflows and actions for the tests of the command line, which name this file. They remember nothing."""

import asyncio
import time
from datetime import date
from pathlib import Path

from redrive import Permanent, RetryPolicy, Workflow, action, current_attempt, workflow

QUICKLY = RetryPolicy(attempts=3, backoff_seconds=0.01, jitter=0)


@action(name="cli_pay", retry=QUICKLY)
async def pay(cents: int, failures: int, password: str = "") -> str:
    if current_attempt().number <= failures:
        raise ConnectionError(f"no answer, password={password}")
    return f"paid {cents}"


@action(name="cli_refuse")
async def refuse(why: str) -> None:
    raise Permanent(why)


@action(name="cli_unreachable")
async def unreachable() -> None:
    raise ConnectionError("away")


@action(name="cli_nap")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@action(name="cli_wait_for")
async def wait_for(path: Path) -> str:
    path.with_suffix(".begun").touch()
    while not path.exists():  # noqa: ASYNC110, ASYNC240 - another process makes the file
        await asyncio.sleep(0.01)
    return "it is there"


@action(name="cli_block")
def block(seconds: float) -> str:
    time.sleep(seconds)
    return "unblocked"


@workflow(name="CliOrder")
class CliOrder(Workflow):
    async def run(self, user: str, failures: int = 0, password: str = "") -> dict[str, str]:
        return {"user": user, "paid": await pay(cents=100, failures=failures, password=password)}


@workflow(name="CliDelivery")
class CliDelivery(Workflow):
    """Its arguments are called as settings of the start are, and are no plain JSON."""

    async def run(self, key: str, queue: int = 0, /, *, day: date) -> str:
        return f"{key} {queue} {day:%A}"


@workflow(name="CliNaps")
class CliNaps(Workflow):
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return await nap(seconds=0)


not_a_workflow = 1
