"""The public form of a line of a flow's log: what `app.log()` returns and what `/v1/flows/{id}/events` shows."""

from collections.abc import Iterable

import msgspec

from redrive.flows.events import AnyEvent, AttemptStarted, ItemStarted, Line


class LogLine(msgspec.Struct, frozen=True):
    """One line of a flow's log. `print` and `msgspec.json.encode` give the JSON that the server shows."""

    seq: int
    """Counts the lines of the flow, from 1."""
    at: float
    """Epoch seconds."""
    event: AnyEvent
    """What happened: `type` names the event, and the other fields depend on it."""

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def public_lines(lines: Iterable[Line]) -> list[LogLine]:
    """Return the lines without delivery tokens: who reads a log must not be able to complete its attempts."""
    return [LogLine(seq, at, _without_token(event)) for seq, at, event in lines]


def _without_token(event: AnyEvent) -> AnyEvent:
    if isinstance(event, ItemStarted | AttemptStarted):
        return msgspec.structs.replace(event, delivery="")
    return event
