"""A dependency that is down: its circuit opens, work waits without spending attempts, and is done when it is back."""

import asyncio

import pytest
from tests.end_to_end.payments_outage import (
    BACK_AT,
    CALLED,
    ITEMS,
    OPENS_AFTER,
    OUTAGE,
    orders,
    start_in_outage,
)

from redrive.client.step_views import ItemView
from redrive.explain.explanation import Explanation
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemDeferred, ItemStarted
from redrive.flows.graphs.graph import graph_named
from redrive.testing import FlowOutcome, flow_app


def deferred(outcome: FlowOutcome) -> list[ItemDeferred]:
    return [line.event for line in outcome.lines if isinstance(line.event, ItemDeferred)]


@pytest.mark.promise("A15", "A14", "T2", "T4")
def test_when_the_circuit_opens_work_is_deferred_and_no_attempt_is_spent() -> None:
    async def story() -> tuple[tuple[ItemView, ...], FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await start_in_outage(app, orders(parallelism=1))
                await app.settled(handle)
                assert len(CALLED) == OPENS_AFTER
                [step] = await app.steps_of(handle.id)
                rows = [row for row in await app.retries() if row.retry_kind == "deferred"]
                assert len(rows) == ITEMS - OPENS_AFTER
            return step.items, await app.outcome(handle)

    items, outcome = asyncio.run(story())
    # Five were tried and failed; the others wait for the probe, their first execution still to come.
    assert [item.attempts for item in items] == [1] * OPENS_AFTER + [0] * (ITEMS - OPENS_AFTER)
    assert all(item.state == "waiting" and item.retry_eligible and not item.ready for item in items)
    assert (outcome.status, outcome.result) == ("completed", {"paid": [order * 10 for order in range(ITEMS)]})
    assert {one.reason for one in deferred(outcome)} <= {
        "the circuit of payments is open",
        "the circuit of payments is recovering: calls are let through in order, as fast as it can take them",
    }
    made = [line.event for line in outcome.lines if isinstance(line.event, ItemStarted | AttemptStarted)]
    assert len(made) == len(CALLED)
    # While it was down there were only probes: one each half minute.
    down = [at for at in CALLED if at < BACK_AT[0]]
    assert OPENS_AFTER < len(down) <= OPENS_AFTER + OUTAGE / 30
    assert all(
        later - earlier >= 30 for earlier, later in zip(down[OPENS_AFTER - 1 :], down[OPENS_AFTER:], strict=False)
    )
    assert len([line for line in outcome.lines if isinstance(line.event, AttemptFailed)]) == len(down)


@pytest.mark.promise("A14")
def test_explain_says_until_when_work_that_was_never_tried_is_held_back() -> None:
    async def story() -> tuple[Explanation, ItemView]:
        async with flow_app() as app:
            with app.clock.frozen():
                await app.settled(await start_in_outage(app, orders(parallelism=1)))
                late = await app.start(graph_named("circuit").call({"orders": [99]}))
                await app.settled(late)
                assert len(CALLED) == OPENS_AFTER
                [step] = await app.steps_of(late.id)
                return await app.explain(late.id), step.items[0]

    told, item = asyncio.run(story())
    assert told.headline.startswith("waiting for attempt 1 of charge (item 1) at ")
    [wait] = told.waits_for
    assert wait.what == "attempt 1 of charge (item 1)"
    assert wait.until is not None
    assert wait.until.at.timestamp() == pytest.approx(item.next_retry_at)


@pytest.mark.promise("A10", "A15")
def test_work_that_runs_side_by_side_survives_the_outage_too() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            return await app.outcome(await start_in_outage(app, orders(parallelism=None)))

    outcome = asyncio.run(story())
    assert (outcome.status, outcome.result) == ("completed", {"paid": [order * 10 for order in range(ITEMS)]})
    assert deferred(outcome)
    # Four attempts with a second between them would have been over long before.
    assert outcome.duration > OUTAGE


@pytest.mark.promise("A14")
@pytest.mark.parametrize("commit", range(1, 9))
def test_a_crash_while_work_is_deferred_loses_nothing(commit: int) -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            app.crash_at(commit, "after")
            return await app.outcome(await start_in_outage(app, orders(parallelism=1)))

    outcome = asyncio.run(story())
    assert (outcome.status, outcome.result) == ("completed", {"paid": [order * 10 for order in range(ITEMS)]})
