"""Decode a flow's log from its stored rows; each row holds the events of one turn."""

import contextlib
from collections.abc import Generator, Iterable, Sequence

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.chunks import in_chunks, run_to_completion
from redrive.flows.events import AnyEvent, Line, read_turn
from redrive.flows.run_events import RunContinued
from redrive.stores.encoded_text import how_to_decode, key_of
from redrive.stores.records import EventRow


def reading_lines(rows: Sequence[EventRow]) -> Generator[None, None, list[Line]]:
    """Read all lines of the current run, in pieces. DeserializationError when a newer version wrote some of them."""
    lines: list[Line] = []
    for index, part in enumerate(in_chunks(rows)):
        if index:
            yield
        for row in part:
            events = _events_of(row)
            begin = next((index for index, event in enumerate(events) if isinstance(event, RunContinued)), None)
            if begin is not None:
                # What comes before belongs to an earlier run.
                lines, events = [], events[begin:]
            lines += _lines(row, events)
    return lines


def _events_of(row: EventRow) -> list[AnyEvent]:
    try:
        return read_turn(row.body)
    except msgspec.MsgspecError as error:
        if (key := key_of(row.body)) is not None:
            raise DeserializationError(f"flow {row.flow_id}: its payloads are {how_to_decode(key)}") from None
        raise DeserializationError(
            f"flow {row.flow_id}: a line of its log cannot be read by this version ({error}); upgrade redrive"
        ) from None


def _lines(row: EventRow, events: Sequence[AnyEvent]) -> list[Line]:
    return [Line(seq, row.at, event) for seq, event in enumerate(events, start=row.seq - len(events) + 1)]


def lines_of_run(rows: Sequence[EventRow], after: int, last: int) -> list[Line]:
    """Read the lines of an earlier run: those after that number, up to the last one."""
    return [line for row in rows for line in _lines(row, _events_of(row)) if after < line.seq <= last]


def lines_of(rows: Sequence[EventRow]) -> list[Line]:
    """Read all lines without yielding."""
    return run_to_completion(reading_lines(rows))


class _Named(msgspec.Struct):
    item: int | None = None


_naming = msgspec.json.Decoder(list[_Named])


def items_named_in(rows: Iterable[EventRow]) -> set[int]:
    """The items named in a log that this version cannot read."""
    named: set[int] = set()
    for _, _, _, body in rows:
        with contextlib.suppress(msgspec.MsgspecError):
            events = _naming.decode(body)
            named.update(event.item for event in events if event.item is not None)
    return named
