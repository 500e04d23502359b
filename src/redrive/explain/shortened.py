"""Shorten a log to what can be looked at: the first and the last of what there is very much of."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from redrive.flows.events import AttemptStarted, ItemAdded, ItemDeferred, ItemStarted, Line

T = TypeVar("T")


def ends(found: Sequence[T], most: int | None) -> list[T]:
    """Return the first and the last of them, at most so many."""
    middle = _middle(len(found), most)
    return [*found[: middle.start], *found[middle.stop :]]


def elided_lines(lines: Sequence[Line], most: int | None) -> set[int]:
    """Return the numbers of the lines that begin an attempt, or a wait, in the middle of those of its item."""
    elided: set[int] = set()
    if most is None or len(lines) <= most:
        return elided
    begun: defaultdict[int, list[int]] = defaultdict(list)
    held: defaultdict[int, list[int]] = defaultdict(list)

    def elide(numbers: list[int]) -> None:
        middle = _middle(len(numbers), most)
        elided.update(numbers[middle.start : middle.stop])

    for seq, _, event in lines:
        if isinstance(event, ItemAdded):
            # After a redrive a number may be used again, by another item.
            elide(begun.pop(event.item, []))
            elide(held.pop(event.item, []))
        if isinstance(event, AttemptStarted | ItemStarted):
            begun[event.item].append(seq)
        elif isinstance(event, ItemDeferred):
            held[event.item].append(seq)
    for numbers in (*begun.values(), *held.values()):
        elide(numbers)
    return elided


def _middle(count: int, most: int | None) -> range:
    """Return which places of so many are left out."""
    if most is None or count <= most:
        return range(count, count)
    first = most // 2
    return range(first, count - (most - first))
