"""Event sinks: a protocol with one method, and a bounded queue of typed events."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from redrive.errors import EventRefusedError
from redrive.pipeline.events import EVENT_NAMES, EVENT_TYPES, fields_of
from redrive.pipeline.redacted_text import error_text


@runtime_checkable
class EventSink(Protocol):
    """Receives events. `try_emit` must not block: drop what cannot be taken now."""

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None: ...  # noqa: A002 - what callers write


class NoSink:
    """Discards every event."""

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        return


NO_SINK = NoSink()


class QueuedEvent(msgspec.Struct, frozen=True):
    type: str
    event: Any
    """The typed record, such as a `StageRetryScheduled`."""


class EventQueue:
    """Keeps events until they are taken. When it is full, new events are dropped and counted.

    The queue is strict: it raises EventRefusedError for an event of an unknown type or with wrong fields.
    `types` adds your own event types (name -> msgspec.Struct).
    """

    def __init__(self, limit: int = 1000, types: Mapping[str, type[msgspec.Struct]] | None = None) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit: {limit!r} is not allowed; use a whole number from 1")
        self.limit = limit
        self.dropped = 0
        """How many events were dropped because the queue was full."""
        self.refused = 0
        """How many events were refused."""
        self._types = {**EVENT_TYPES, **(types or {})}
        self._waiting: deque[QueuedEvent] = deque()
        self._arrived = asyncio.Event()

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        kind = self._types.get(type)
        if kind is None:
            self.refused += 1
            raise EventRefusedError(f"{type!r} is not an event type; use one of {', '.join(self._types)}")
        try:
            event = msgspec.convert(dict(data), kind)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            self.refused += 1
            raise EventRefusedError(f"{type}: {error}") from None
        if len(self._waiting) >= self.limit:
            self.dropped += 1
            return
        self._waiting.append(QueuedEvent(type, event))
        self._arrived.set()

    def take_all(self) -> list[QueuedEvent]:
        """Remove and return all events, oldest first."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._arrived.clear()
        return taken

    async def get(self) -> QueuedEvent:
        """Wait for an event, then remove and return the oldest."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def __len__(self) -> int:
        return len(self._waiting)


class WatchedSink:
    """Passes every event on, and remembers whether one of the type `awaited` was among them."""

    def __init__(self, sink: EventSink, awaited: str) -> None:
        self.seen = False
        self._sink = sink
        self._awaited = awaited

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        self.seen = self.seen or type == self._awaited
        self._sink.try_emit(type, data)


def put(sink: EventSink, event: msgspec.Struct) -> None:
    """Hand an event to a sink. An error of the sink is logged; it does not fail the run."""
    if sink is NO_SINK:
        return
    try:
        sink.try_emit(EVENT_NAMES[type(event)], fields_of(event))
    except Exception as error:  # noqa: BLE001 - logged without its traceback, which may show the event's values
        logging.getLogger("redrive").error(
            "the event sink %s failed; the run continues: %s: %s",
            type(sink).__name__,
            type(error).__name__,
            error_text(error),
        )
