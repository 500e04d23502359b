"""A work item that is held back has one time, whoever shows it."""

import msgspec
import pytest

from redrive.flows.item import Item
from redrive.flows.next_tries import next_tries
from redrive.policies.policy import Policy

NOW, PAST, SOON, LATER = 1000.0, 990.0, 1010.0, 1060.0


def item(number: int, retry_at: float, deferred: str = "") -> Item:
    found = Item(number, "pay", 0, "", msgspec.Raw(b"{}"), Policy(), attempt_began=0.0)
    found.state, found.retry_at, found.deferred = "waiting", retry_at, deferred
    return found


@pytest.mark.parametrize(
    ("items", "wake_at", "tries"),
    [
        ([item(1, SOON)], SOON, {1: SOON}),
        ([item(1, PAST)], SOON, {1: PAST}),
        ([item(1, SOON, "the circuit is open")], SOON, {1: SOON}),
        ([item(1, PAST, "the circuit is open")], LATER, {1: LATER}),
        ([item(1, PAST, "the circuit is open"), item(2, LATER)], SOON, {1: SOON, 2: LATER}),
        ([item(1, PAST, "the circuit is open"), item(2, SOON)], SOON, {1: None, 2: SOON}),
        ([item(1, PAST, "the circuit is open")], None, {1: None}),
        ([item(1, PAST, "the circuit is open")], PAST, {1: None}),
    ],
)
def test_an_item_held_back_again_is_tried_when_its_flow_wakes_up(
    items: list[Item], wake_at: float | None, tries: dict[int, float | None]
) -> None:
    assert next_tries(items, wake_at, NOW) == tries
