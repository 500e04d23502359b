"""The checker finds what is wrong with a story, and nothing in one that is as it should be."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.chaos.checker import FlowStory, Story, check
from tests.chaos.effects import Effect

from redrive.flows.errors.stored_error import store_error
from redrive.flows.events import (
    AttemptReturned,
    AttemptStarted,
    FlowCompleted,
    FlowFailed,
    ItemCompleted,
    ItemStarted,
    Line,
)
from redrive.stores.records import FlowRecord

RESULT = "touched job-6"


def record(status: Any = "completed", **changed: Any) -> FlowRecord:
    values: dict[str, Any] = {
        "id": "f", "definition": "action:chaos_touch", "input": "{}", "queue": "default", "priority": 0, "key": "key-6",
        "status": status, "created_at": 1.0, "start_at": 1.0, "wake_at": None, "owner": None, "claims": 1,
        "messages_sent": 0, "messages_read": 0, "finished_at": 3.0,
    }  # fmt: skip
    return FlowRecord(**{**values, **changed})


def effect(word: str, attempt: int, delivery: str | None = None) -> Effect:
    return Effect(word, "f", 1, attempt, delivery or f"d{attempt}", "f.1", 1.0, 7, "touch")


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def good_story() -> Story:
    """A job that was started with a key from two clients, lost its first attempt, and completed with its second."""
    lines = [
        Line(1, 1.0, ItemStarted(item=1, step="chaos_touch", args=raw({}), policy=raw({}), delivery="d1")),
        Line(2, 2.0, AttemptStarted(item=1, attempt=2, delivery="d2")),
        Line(3, 3.0, ItemCompleted(item=1, attempt=2, result=raw(RESULT))),
        Line(4, 3.0, FlowCompleted(result=raw(RESULT))),
    ]
    effects = [effect("start", 1), effect("start", 2), effect("end", 2)]
    return Story(effects, {"f": FlowStory(record(), lines, RESULT)}, {6: "job"}, {6: ["f", "f"]})


def test_a_story_as_it_should_be_has_no_findings() -> None:
    assert check(good_story()) == []


def returned_story() -> Story:
    """The same, but its first attempt was stopped with its worker and returned, so the next one has its number too."""
    story = good_story()
    lines = story.flows["f"].lines
    lines[1:3] = [
        Line(2, 2.0, AttemptReturned(item=1, attempt=1, until=2.0, reason="its worker stopped")),
        Line(3, 2.0, AttemptStarted(item=1, attempt=1, delivery="d2")),
        Line(4, 3.0, ItemCompleted(item=1, attempt=1, result=raw(RESULT))),
    ]
    lines[4] = Line(5, 3.0, FlowCompleted(result=raw(RESULT)))
    story.effects = [effect("start", 1), effect("end", 1), effect("start", 1, "d2"), effect("end", 1, "d2")]
    return story


@pytest.mark.promise("X13")
def test_a_returned_attempt_is_followed_by_one_of_the_same_number() -> None:
    assert check(returned_story()) == []
    repeated = returned_story()
    repeated.effects.append(repeated.effects[0])
    assert any("recorded work ran again" in finding for finding in check(repeated))


@pytest.mark.promise("X13")
def test_a_process_that_was_stopped_between_its_check_and_its_call_is_not_blamed() -> None:
    story = good_story()
    story.effects.append(effect("start", 1, "d0")._replace(stood=3.0))
    assert not any("ran again" in finding or "out of order" in finding for finding in check(story))


def lose_the_flow(story: Story) -> None:
    story.flows.clear()


def start_it_twice(story: Story) -> None:
    story.started[6].append("g")
    story.flows["g"] = FlowStory(record(id="g"), story.flows["f"].lines, RESULT)


def add_what_nobody_asked_for(story: Story) -> None:
    story.flows["g"] = FlowStory(record(id="g", key=None), [], RESULT)


def change(**fields: Any) -> Callable[[Story], None]:
    def apply(story: Story) -> None:
        story.flows["f"].record = record(**fields)

    return apply


def fail_it(story: Story) -> None:
    story.flows["f"].record = record("failed")
    story.flows["f"].lines[-1] = Line(4, 3.0, FlowFailed(error=store_error(ValueError()), kind="poison"))


def return_something_else(story: Story) -> None:
    story.flows["f"].result = "nothing"


def leave_a_gap(story: Story) -> None:
    del story.flows["f"].lines[2]


def set_the_time_back(story: Story) -> None:
    story.flows["f"].lines[2] = story.flows["f"].lines[2]._replace(at=1.5)


def skip_an_attempt(story: Story) -> None:
    story.flows["f"].lines[1] = Line(2, 2.0, AttemptStarted(item=1, attempt=3, delivery="d2"))


def with_effect(position: int, word: str, attempt: int, delivery: str | None = None) -> Callable[[Story], None]:
    def apply(story: Story) -> None:
        story.effects.insert(position, effect(word, attempt, delivery))

    return apply


def never_do_it(story: Story) -> None:
    story.effects.pop()


def change_the_receipt(story: Story) -> None:
    story.effects[1] = story.effects[1]._replace(receipt="f.9")


@pytest.mark.promise("X13")
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lose_the_flow, "was acknowledged and is gone"),
        (start_it_twice, "was started as 2 flows"),
        (start_it_twice, "have the key key-6"),
        (add_what_nobody_asked_for, "1 flows exist that no start returned"),
        (change(status="waiting"), "stuck"),
        (change(status="cancelled"), "was cancelled by nobody"),
        (fail_it, "an innocent dead letter"),
        (return_something_else, "returned 'nothing' instead of"),
        (leave_a_gap, "has a gap in its log"),
        (set_the_time_back, "the times of its log go back"),
        (skip_an_attempt, "attempt 3 after 1"),
        (with_effect(1, "start", 1), "2 calls were made with the delivery token d1"),
        (with_effect(1, "start", 1, "other"), "attempt 1 was made 2 times"),
        (with_effect(3, "start", 3), "a call that no log has"),
        (with_effect(3, "start", 3), "recorded work ran again"),
        (with_effect(3, "start", 1, "d1"), "recorded work ran again"),
        (with_effect(2, "start", 1, "d1"), "attempts were called out of order"),
        (with_effect(1, "reported", 1), "an acknowledged report did not count"),
        (never_do_it, "its result is recorded, and nobody made it"),
        (change_the_receipt, "had several receipt tokens"),
        (lambda story: story.leftovers.append("a row"), "left behind: a row"),
        (lambda story: story.over_limit.append("4 of 3"), "a limit was exceeded: 4 of 3"),
    ],
)
def test_what_is_wrong_is_found(spoil: Callable[[Story], None], says: str) -> None:
    story = good_story()
    spoil(story)
    assert any(says in finding for finding in check(story)), check(story)
