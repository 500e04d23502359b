"""Steps of a graph whose outcome nobody needs any more, since another step failed for good."""

import asyncio

import pytest

import redrive
from redrive import action, read_graph
from redrive.determinism.clock import current_clock
from redrive.testing import FlowOutcome, flow_app

POLLED: list[int] = []


@action(name="unneeded.pay")
async def pay() -> str:
    await _take(1)
    raise redrive.Permanent("no money")


@action(name="unneeded.poll")
async def poll() -> str:
    POLLED.append(1)
    await _take(2)
    raise redrive.Snooze("10m", "not ready yet")


async def _take(seconds: float) -> None:
    clock = current_clock()
    await clock.asleep_until(clock.monotonic() + seconds)


POLLS = read_graph(
    """
graph: unneeded
goals: [deliver]
steps:
  pay: {action: unneeded.pay, outputs: [paid]}
  fetch: {action: unneeded.poll, outputs: [parcel]}
  deliver: {action: unneeded.poll, depends_on: [pay, fetch]}
""",
    "unneeded.yaml",
)


@pytest.mark.promise("A10")
def test_an_attempt_that_asks_to_come_back_later_does_not_when_nobody_needs_it_any_more() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            return await app.outcome(await app.start(POLLS.call()), within=5)

    outcome = asyncio.run(story())
    assert (outcome.status, str(outcome.error), outcome.duration) == ("failed", "no money", 2)
    assert POLLED == [1]
