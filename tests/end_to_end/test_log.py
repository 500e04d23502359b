"""The log alone tells when each retry was made, and why."""

from typing import Any

import pytest
from tests.end_to_end.scene import ROUNDING, Ended, Handlers, ended, logged, open_app, run, start, start_step

from redrive.client.app import App
from redrive.explain.parts import AttemptSummary, ItemEntry
from redrive.flows.events import AttemptFailed, read_turn
from redrive.flows.history import fold
from redrive.flows.item import Item
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt

STEPS: dict[str, dict[str, Any]] = {
    "reserve": {"outputs": ["reservation"], "work_config": {"max_retries": 3, "backoff": 10, "backoff_type": "linear"}},
    "ship": {
        "inputs": {"reservation": "any"},
        "retry": {"max_attempts": 3, "backoff_base_ms": 60},
        "outputs": ["parcel"],
    },
}


def order(handlers: Handlers) -> dict[str, Any]:
    endpoints = {"reserve": handlers.at("503", times=2), "ship": handlers.at("reset")}
    return {"steps": {name: {"endpoint": endpoints[name], **step} for name, step in STEPS.items()}}


async def _failed_order(address: str, handlers: Handlers) -> tuple[Ended, list[ItemEntry], list[str]]:
    async with open_app(address) as app:
        flow = await ended(app, handlers, await start(app, order(handlers)))
        rows = (await app.store.read_events([flow.id]))[flow.id]
    # Someone else, who was not there.
    async with open_app(address, worker=False) as app:
        told = await app.explain(flow.id)
    return flow, [one for one in told.timeline if isinstance(one, ItemEntry)], [row.body for row in rows]


def before(flow: Ended, seq: int) -> Any:
    return fold([line for line in flow.lines if line.seq < seq])


@pytest.mark.promise("A9", "A13")
def test_the_log_alone_gives_when_and_why_of_each_retry(address: str, handlers: Handlers) -> None:
    flow, stories, stored = run(_failed_order(address, handlers))
    assert flow.words == [
        *("ItemStarted", "AttemptFailed", "AttemptStarted", "AttemptFailed", "AttemptStarted", "ItemCompleted"),
        *("ItemStarted", "AttemptFailed", "AttemptStarted", "AttemptFailed", "AttemptStarted", "AttemptFailed"),
        *("StepSettled", "FlowFailed"),
    ]
    # It is read back as it was written: there is nothing beside it.
    assert [event for body in stored for event in read_turn(body)] == [line.event for line in flow.lines]
    for line in flow.lines:
        event = line.event
        if not isinstance(event, AttemptFailed):
            continue
        item: Item = before(flow, line.seq).items[event.item]
        assert item.retry_history is not None
        # Asked again with what the log had by then, the one rule answers the same.
        again = decide(item.policy, item.retry_history, event.failure, line.at, lambda: 0.5)
        because = event.decision.because
        assert (type(again), again.because) == (type(event.decision), because)
        assert (because.attempt, because.category) == (event.attempt, "transient")
        assert because.reason
        if isinstance(event.decision, RetryAt):
            assert isinstance(again, RetryAt)
            assert again.when == pytest.approx(event.decision.when, abs=ROUNDING)
            after: Item = before(flow, line.seq + 1).items[event.item]
            assert (after.state, after.retry_at) == ("waiting", event.decision.when)
    _check_stories(flow, stories)


def _check_stories(flow: Ended, stories: list[ItemEntry]) -> None:
    """What `explain` tells is what the log has."""
    attempts: list[AttemptSummary] = [attempt for story in stories for attempt in story.attempts]
    told = [attempt for attempt in attempts if attempt.decision is not None]
    for attempt, (at, failure) in zip(told, flow.failures(), strict=True):
        decision = attempt.decision
        assert decision is not None
        assert attempt.ended is not None
        assert attempt.ended.at.timestamp() == pytest.approx(at, abs=ROUNDING)
        assert attempt.status == failure.failure.status
        assert decision.because == failure.decision.because
        assert decision.why
        when = failure.decision.when if isinstance(failure.decision, RetryAt) else None
        assert (decision.next and decision.next.at.timestamp()) == pytest.approx(when, abs=ROUNDING)
    assert [(story.step, story.state) for story in stories] == [("reserve", "completed"), ("ship", "failed")]


@pytest.mark.promise("A9", "A13", "A14")
def test_while_a_retry_waits_the_log_the_retry_queue_and_explain_say_until_when(
    address: str, handlers: Handlers
) -> None:
    async def story(app: App) -> None:
        config = {"max_retries": 5, "backoff": 30_000, "backoff_type": "fixed"}
        handle = await start_step(app, handlers.at("503"), work_config=config)
        [failed] = await logged(app, handle.id, AttemptFailed)
        assert isinstance(failed.decision, RetryAt)
        [row] = [one for one in await app.retries() if one.flow_id == handle.id]
        assert row.scheduled_at == pytest.approx(failed.decision.when, abs=ROUNDING)
        assert (row.attempt_number, row.max_retries, row.backoff_kind) == (1, 5, "constant")
        [wait] = (await app.explain(handle.id)).waits_for
        assert wait.until is not None
        assert wait.until.at.timestamp() == pytest.approx(failed.decision.when, abs=ROUNDING)
        await handle.cancel(by="ann", why="seen enough")
        assert (await ended(app, handlers, handle)).status == "cancelled"

    async def scene() -> None:
        async with open_app(address) as app:
            await story(app)

    run(scene())
