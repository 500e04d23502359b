"""A flow's log, line by line, from the rows that a store keeps: each has the events that were logged together."""

from collections.abc import Iterable

import msgspec

from redrive.flows.events import read_turn
from redrive.flows.history import Line
from redrive.flows.values import NotReadable
from redrive.stores.records import EventRow


def lines_of(rows: Iterable[EventRow]) -> list[Line]:
    """NotReadable when a newer version wrote some of them."""
    lines: list[Line] = []
    for flow_id, last, at, body in rows:
        try:
            events = read_turn(body)
        except msgspec.MsgspecError as error:
            raise NotReadable(
                f"flow {flow_id}: a line of its log cannot be read by this version ({error}); upgrade redrive"
            ) from None
        lines += [Line(seq, at, event) for seq, event in enumerate(events, start=last - len(events) + 1)]
    return lines
