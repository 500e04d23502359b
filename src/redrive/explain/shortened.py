"""Shorten an explanation to what can be looked at: the first and the last of what there is very much of."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from redrive.explain.explanation import Explanation
from redrive.explain.parts import ItemEntry

T = TypeVar("T")


def shorten(explanation: Explanation, most: int) -> Explanation:
    """Return it with at most so many entries, attempts of each item, and events; it says how many it leaves out."""
    timeline = _ends(explanation.timeline, most)
    for entry in timeline:
        if isinstance(entry, ItemEntry):
            attempts, held_back = entry.attempts, entry.held_back
            entry.attempts, entry.held_back = _ends(attempts, most), _ends(held_back, most)
            entry.elided = len(attempts) - len(entry.attempts)
            entry.elided_held_back = len(held_back) - len(entry.held_back)
    events = _ends(explanation.events, most)
    return msgspec.structs.replace(
        explanation,
        timeline=timeline,
        events=events,
        waits_for=explanation.waits_for[:most],
        elided=len(explanation.timeline) - len(timeline),
        elided_events=len(explanation.events) - len(events),
    )


def _ends(found: Sequence[T], most: int) -> list[T]:
    """The first and the last of them."""
    if len(found) <= most:
        return list(found)
    first = most // 2
    return [*found[:first], *found[len(found) - (most - first) :]]
