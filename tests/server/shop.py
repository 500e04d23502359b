"""Workflows and actions for the tests of the server."""

import asyncio
from uuid import UUID

from redrive import Permanent, RetryPolicy, Workflow, action, current_attempt, workflow

SECRET = "hunter2-is-my-password"


@action(name="srv_pay", retry=RetryPolicy(attempts=3, backoff_seconds=0.01))
async def pay(cents: int, failures: int = 0) -> str:
    if current_attempt().number <= failures:
        raise ConnectionError(f"no answer, password={SECRET}")
    return f"paid {cents}"


@action(name="srv_refuse")
async def refuse(why: str) -> None:
    raise Permanent(why)


@action(name="srv_flaky", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
async def flaky() -> None:
    raise ConnectionError("no answer")


@action(name="srv_unstored")
async def unstored(x: UUID | str) -> None: ...


@workflow(name="SrvOrder")
class SrvOrder(Workflow):
    async def run(self, user: str, failures: int = 0) -> dict[str, str]:
        return {"user": user, "paid": await pay(cents=100, failures=failures)}


@workflow(name="SrvNap")
class SrvNap(Workflow):
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"


@workflow(name="SrvUnread")
class SrvUnread(Workflow):
    async def run(self, x: "Decimal") -> None:  # type: ignore[name-defined]  # noqa: F821 - as under TYPE_CHECKING
        ...
