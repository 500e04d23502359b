"""What runs beside the full store: `redrive serve` loads this file."""

import asyncio

import redrive
from redrive import Policy, RetryAfter, Workflow, action, constant, workflow
from redrive.policies import Jitter

AT_ONCE = Policy(
    attempts=None, backoff=constant(0.0), jitter=Jitter("none"), floor=0.0, deadline=None, max_retry_after=None
)


@action(name="benchmarks.browser.stubborn", retry=AT_ONCE)
async def stubborn(attempts: int) -> None:
    """Fail so often, then wait for a day."""
    if redrive.current_attempt().number >= attempts:
        raise RetryAfter("1d", "stock-taking until tomorrow")
    raise ConnectionError("pay.example.net:443: connection refused")


@action(name="benchmarks.browser.quick")
async def quick(number: int) -> int:
    return number


@workflow(name="benchmarks.browser.Held")
class Held(Workflow):
    async def run(self) -> None:
        await asyncio.sleep(86_400)  # noqa: TID251 - a timer of the flow
