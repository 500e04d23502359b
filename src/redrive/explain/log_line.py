"""The public form of a flow's log: what `app.log()` returns and what `/v1/flows/{id}/events` shows."""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from redrive.explain.lifecycle_events import Lifecycle, lifecycle_count, lifecycle_events
from redrive.flows.events import AnyEvent, AttemptStarted, ItemStarted, Line


class BrokenEvent(msgspec.Struct, frozen=True, tag="broken", tag_field="type"):
    """Stands for the events of a row that cannot be read; its line is the last of them."""

    problem: str


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a flow's log. `print` and `msgspec.json.encode` give the JSON that the server shows."""

    seq: int
    """Counts the lines of the flow, from 1."""
    at: float
    """Epoch seconds."""
    event: AnyEvent | Lifecycle | BrokenEvent
    """What happened: `type` names the event, and the other fields depend on it."""
    part: int = 0
    """Counts the events that share a line after the first one, from 1: what the line means for its work item."""

    @property
    def id(self) -> str:
        """The place of the event in the log, at which a stream can be resumed: "7", or "7.1" for a part of line 7."""
        return f"{self.seq}.{self.part}" if self.part else str(self.seq)

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def public_lines(lines: Iterable[Line]) -> list[LogLine]:
    """Return the log as events, each line followed by what it means for its work item.

    Delivery tokens are left out: who reads a log must not be able to complete its attempts.
    """
    shown: list[LogLine] = []
    for seq, at, event in lines:
        shown.append(LogLine(seq, at, _without_token(event)))
        if not isinstance(event, AttemptStarted):
            shown += [LogLine(seq, at, one, part) for part, one in enumerate(lifecycle_events(at, event), start=1)]
    return shown


class LifecycleLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of a flow's log about the lifecycle of a work item; it holds no arguments and no results."""

    seq: int
    """The line of the log that says so."""
    at: float
    """Epoch seconds."""
    event: Lifecycle
    """What happened: `type` names the event, and the other fields depend on it."""
    part: int = 0
    """Which event of the line it is, as in the log."""


def lifecycle_lines(lines: Sequence[Line], most: int | None = None) -> tuple[list[LifecycleLine], int]:
    """Return only the events about the lifecycle of work items, and how many in the middle are left out.

    most: return at most so many.
    """
    left_out = 0 if most is None else max(0, sum(lifecycle_count(line.event) for line in lines) - most)
    if most is None or not left_out:
        return [one for line in lines for one in _lifecycle_of(line)], 0
    # The reasons are put into words for those only that are shown.
    first = islice((one for line in lines for one in _lifecycle_of(line)), most // 2)
    last = islice((one for line in reversed(lines) for one in reversed(_lifecycle_of(line))), most - most // 2)
    return [*first, *reversed(list(last))], left_out


def _lifecycle_of(line: Line) -> list[LifecycleLine]:
    seq, at, event = line
    return [
        LifecycleLine(seq, at, one, 0 if isinstance(event, AttemptStarted) else part)
        for part, one in enumerate(lifecycle_events(at, event), start=1)
    ]


def read_id(text: str) -> tuple[int, int] | None:
    """Read the id of an event as line and part; None when it is not one."""
    seq, dot, part = text.partition(".")
    if not (seq.isascii() and seq.isdigit() and (not dot or (part.isascii() and part.isdigit()))):
        return None
    return int(seq), int(part or 0)


def _without_token(event: AnyEvent) -> AnyEvent:
    if isinstance(event, ItemStarted | AttemptStarted):
        return msgspec.structs.replace(event, delivery="")
    return event
