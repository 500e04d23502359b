"""A flow's log, folded into what is true now; what a redrive undoes, and what it leaves alone."""

import asyncio
from typing import Any

import msgspec
import pytest

from redrive import RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.failures.failure import Failure
from redrive.flows import events
from redrive.flows.errors.item_error import item_report
from redrive.flows.errors.stored_error import store_error
from redrive.flows.events import AnyEvent, Line, read_turn, write_event, write_turn
from redrive.flows.history import MOST_FAILURES, fold
from redrive.flows.rewind import drop_rewound
from redrive.policies.decision import Because, GiveUp, RetryAt
from redrive.testing import run_flow

POLICY = msgspec.Raw(b'{"attempts":3}')
NOTHING = msgspec.Raw(b"{}")
FAILURE = Failure(category="transient", reason="it may pass", kind="exception", type="ConnectionError", message="no")
BECAUSE = Because(
    rule="retry_on",
    category="transient",
    reason="it may pass",
    failure_kind="exception",
    attempt=1,
    attempts=3,
    wait=5.0,
)


def started(item: int, attempt: int | None = None) -> AnyEvent:
    if attempt is None:
        return events.ItemStarted(item=item, step="work", args=NOTHING, policy=POLICY, delivery=f"{item}.1")
    return events.AttemptStarted(item=item, attempt=attempt, delivery=f"{item}.{attempt}")


def failed(item: int, attempt: int = 1, retry_at: float | None = None) -> AnyEvent:
    decision = GiveUp("exhausted", BECAUSE) if retry_at is None else RetryAt(retry_at, BECAUSE)
    return events.AttemptFailed(
        item=item, attempt=attempt, failure=FAILURE, error=store_error(ConnectionError("no")), decision=decision
    )


def completed(item: int, attempt: int = 1) -> AnyEvent:
    return events.ItemCompleted(item=item, attempt=attempt, result=msgspec.Raw(b"1"))


FLOW_FAILED = events.FlowFailed(error=store_error(ValueError()), kind="exhausted", item=1)


def log_of(*lines: AnyEvent) -> list[Line]:
    return [Line(seq, 100.0 + seq, event) for seq, event in enumerate(lines, start=1)]


@pytest.mark.promise("A9", "A13")
def test_an_item_goes_through_its_states_as_the_log_says() -> None:
    lines = log_of(
        events.ItemQueued(item=1, step="work", args=NOTHING, policy=POLICY),
        started(1, 1),
        failed(1, 1, retry_at=500.0),
        started(1, 2),
        events.AttemptReturned(item=1, attempt=2, until=600.0, reason="later"),
        started(1, 2),
        failed(1, 2, retry_at=700.0),
        started(1, 3),
        completed(1, 3),
    )
    seen = []
    for count in range(1, len(lines) + 1):
        item = fold(lines[:count]).items[1]
        seen.append((item.state, item.attempt, item.retry_at))
    assert seen == [
        ("queued", 0, None),
        ("running", 1, None),
        ("waiting", 1, 500.0),
        ("running", 2, None),
        ("waiting", 1, 600.0),
        ("running", 2, None),
        ("waiting", 2, 700.0),
        ("running", 3, None),
        ("completed", 3, None),
    ]


def test_what_was_granted_so_far_is_folded_from_the_decisions() -> None:
    item = fold(log_of(started(1), failed(1, 1, retry_at=500.0), started(1, 2))).items[1]
    assert item.retry_history is not None
    assert item.retry_history.attempts == 2
    assert item.retry_history.started_at == 101.0
    granted = item.retry_history.granted_by("retry_on")
    assert granted is not None
    assert (granted.retries, granted.last_wait) == (1, 5.0)


@pytest.mark.parametrize(
    "event",
    [
        started(1),
        events.ItemQueued(item=2, step="work", args=NOTHING, policy=POLICY),
        events.ItemCancelled(item=2),
        events.TimerSet(timer=1, until=5.5),
        events.TimerFired(timer=1),
        events.PatchMarked(patch="new way"),
        events.FlowBegan(),
        events.FlowCompleted(result=msgspec.Raw(b'{"a":[1,null]}')),
        FLOW_FAILED,
        events.FlowCancelled(),
        started(1, 2),
        failed(1),
        failed(1, 2, retry_at=9.25),
        events.AttemptReturned(item=1, attempt=1, until=3.5, reason="later", details=msgspec.Raw(b"[1]")),
        events.ItemGaveUp(
            item=1, failure=FAILURE, error=store_error(KeyError("x")), decision=GiveUp("deadline", BECAUSE)
        ),
        completed(1),
        events.CancelRequested(by="ann", why="enough"),
        events.Paused(by="ann"),
        events.Resumed(),
        events.FlowParked(problem="line 3"),
        events.Redriven(by="ann", why="mended", item=1, since=4, details=msgspec.Raw(b'"cursor"')),
    ],
    ids=lambda event: type(event).__name__,
)
def test_every_event_is_the_same_after_it_was_written_and_read(event: AnyEvent) -> None:
    text = write_event(event)
    [again] = read_turn(write_turn([text]))
    assert type(again) is type(event)
    assert write_event(again) == text
    assert [type(one) for one in read_turn(write_turn([text, text]))] == [type(event)] * 2


def test_a_redrive_undoes_the_failure_and_what_came_of_it_and_nothing_else() -> None:
    """Item 1 fails; its compensation is item 3. Beside it item 2 completes and leads to item 4, which stays."""
    lines = log_of(
        started(1),
        started(2),
        failed(1),
        started(3),
        events.TimerSet(timer=1, until=200.0),
        completed(2),
        started(4),
        events.TimerFired(timer=1),
        completed(3),
        events.PatchMarked(patch="in the compensation"),
        completed(4),
        FLOW_FAILED,
        events.Redriven(by="ann", why="mended", item=1, since=3),
    )
    assert [line.seq for line in drop_rewound(lines)] == [1, 2, 6, 7, 11, 13]
    history = fold(lines)
    assert {number: item.state for number, item in history.items.items()} == {
        1: "waiting",
        2: "completed",
        4: "completed",
    }
    assert history.timers == {}
    assert history.ending is None
    assert history.items[1].attempt == 1
    assert history.items[1].retry_at == lines[-1].at


def test_a_second_redrive_undoes_only_its_own_part() -> None:
    lines = log_of(
        started(1),
        failed(1),
        FLOW_FAILED,
        events.Redriven(item=1, since=2),
        started(1, 2),
        failed(1, 2),
        started(2),
        completed(2),
        FLOW_FAILED,
        events.Redriven(item=1, since=6),
        started(1, 3),
    )
    assert [line.seq for line in drop_rewound(lines)] == [1, 4, 5, 10, 11]
    item = fold(lines).items[1]
    assert (item.state, item.attempt) == ("running", 3)
    assert fold(lines[:9]).items[2].state == "completed"


def test_a_redriven_flow_is_no_longer_cancelled_if_that_came_after_the_failure() -> None:
    lines = log_of(
        started(1),
        failed(1),
        started(2),
        events.CancelRequested(by="ann"),
        events.ItemCancelled(item=2),
        FLOW_FAILED,
        events.Redriven(item=1, since=2),
    )
    history = fold(lines)
    assert history.cancel_requested is None
    assert set(history.items) == {1}


def test_attempts_that_the_end_of_the_flow_stopped_do_not_count_after_a_redrive() -> None:
    lines = log_of(started(1), started(2), failed(1), FLOW_FAILED, events.Redriven(item=1, since=3))
    beside = fold(lines).items[2]
    assert beside.state == "waiting"
    assert beside.retry_history is not None
    assert beside.retry_history.attempts == 1
    assert not beside.failures


def test_of_very_many_failures_the_first_and_the_latest_are_kept() -> None:
    many: list[AnyEvent] = [started(1)]
    count = MOST_FAILURES * 3
    for attempt in range(1, count):
        many += [failed(1, attempt, retry_at=1.0), started(1, attempt + 1)]
    many.append(failed(1, count))
    item = fold(log_of(*many)).items[1]
    numbers = [one.event.attempt for one in item.failures]
    assert len(numbers) == MOST_FAILURES
    assert (numbers[0], numbers[-1]) == (1, count)
    report = item_report(item)
    assert report is not None
    assert report.made == count


@action(name="history.sometimes")
async def sometimes(fails: int) -> int:
    if current_attempt().number <= fails:
        raise ConnectionError
    return fails


@workflow(name="history.Real")
class Real(Workflow):
    async def run(self) -> list[Any]:
        patient = RetryPolicy(attempts=4, backoff_seconds=10)
        found: list[Any] = list(
            await asyncio.gather(*(self.run_action(sometimes(fails), retry=patient) for fails in range(4)))
        )
        try:
            async with asyncio.timeout(15):
                await self.run_action(sometimes(9), retry=patient)
        except TimeoutError:
            found.append("cut")
        workflow.patched("way")
        return found


def test_every_beginning_of_a_real_log_can_be_folded() -> None:
    outcome = run_flow(Real.call())
    assert outcome.result == [0, 1, 2, 3, "cut"]
    for count in range(len(outcome.lines) + 1):
        history = fold(list(outcome.lines[:count]))
        for item in history.items.values():
            assert item.is_open or item.state in ("completed", "failed", "cancelled")
            assert item.state != "waiting" or item.retry_at is not None
            assert item.state != "running" or item.retry_at is None
    assert {item.state for item in outcome.history.items.values()} == {"completed", "cancelled"}
    assert isinstance(outcome.history.ending, events.FlowCompleted)
