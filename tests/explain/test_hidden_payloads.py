"""What a reader without the right to payloads sees of decisions."""

import msgspec
import pytest

from redrive.explain.hidden_payloads import hide_lines
from redrive.flows.events import ItemGaveUp, Line
from redrive.flows.graphs.outputs import OutputError
from redrive.flows.item import Item
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.worker.flow.attempt_failures import gave_up_at_deadline, gave_up_by_hand

CANARY = "kanarie-4711"


def item() -> Item:
    policy = DURABLE_DEFAULT.replace(deadline=60.0)
    return Item(1, "pay", 0, "", msgspec.Raw(b"{}"), policy, attempt_began=0.0, started_at=0.0)


def shown(event: ItemGaveUp) -> ItemGaveUp:
    (line,) = hide_lines([Line(1, 0.0, event)])
    assert isinstance(line.event, ItemGaveUp)
    return line.event


@pytest.mark.promise("X10")
def test_a_refused_result_is_hidden_where_it_ended_the_retries() -> None:
    refused = gave_up_by_hand(item(), OutputError(f"step pay: {CANARY} is not a number"), 5.0)
    assert CANARY in refused.decision.because.detail
    assert CANARY.encode() not in msgspec.json.encode(shown(refused))


def test_the_words_of_the_engine_are_shown() -> None:
    event = gave_up_at_deadline(item(), 61.0)
    assert shown(event).decision == event.decision
