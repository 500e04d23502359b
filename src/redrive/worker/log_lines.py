"""A flow's log, line by line, from the rows that a store keeps: each has the events that were logged together."""

import contextlib
from collections.abc import Generator, Iterable, Sequence

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.events import read_turn
from redrive.flows.history import Line
from redrive.flows.pieces import at_once, parts_of
from redrive.stores.records import EventRow


def reading_lines(rows: Sequence[EventRow]) -> Generator[None, None, list[Line]]:
    """DeserializationError when a newer version wrote some of them."""
    lines: list[Line] = []
    for index, part in enumerate(parts_of(rows)):
        if index:
            yield
        for flow_id, last, at, body in part:
            try:
                events = read_turn(body)
            except msgspec.MsgspecError as error:
                raise DeserializationError(
                    f"flow {flow_id}: a line of its log cannot be read by this version ({error}); upgrade redrive"
                ) from None
            lines += [Line(seq, at, event) for seq, event in enumerate(events, start=last - len(events) + 1)]
    return lines


def lines_of(rows: Sequence[EventRow]) -> list[Line]:
    """The same in one piece."""
    return at_once(reading_lines(rows))


class _Named(msgspec.Struct):
    item: int | None = None


_naming = msgspec.json.Decoder(list[_Named])


def items_named_in(rows: Iterable[EventRow]) -> set[int]:
    """The items that a log speaks of, as far as can be told where this version cannot read it."""
    named: set[int] = set()
    for _, _, _, body in rows:
        with contextlib.suppress(msgspec.MsgspecError):
            events = _naming.decode(body if body.startswith("[") else f"[{body}]")
            named.update(event.item for event in events if event.item is not None)
    return named
