"""A flow's log, line by line, from the rows that a store keeps: each has the events that were logged together."""

from collections.abc import Iterable

from redrive.flows.events import read_turn
from redrive.flows.history import Line
from redrive.stores.records import EventRow


def lines_of(rows: Iterable[EventRow]) -> list[Line]:
    lines: list[Line] = []
    for _, last, at, body in rows:
        events = read_turn(body)
        lines += [Line(seq, at, event) for seq, event in enumerate(events, start=last - len(events) + 1)]
    return lines
