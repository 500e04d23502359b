"""Where the events of a run go: a protocol of one method, and a bounded queue of typed events."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from redrive.errors import EventRefusedError
from redrive.pipeline.events import EVENT_NAMES, EVENT_TYPES, fields_of
from redrive.pipeline.shown import message_of


@runtime_checkable
class EventSink(Protocol):
    """Takes events. It must not wait: what cannot be taken now is lost."""

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None: ...  # noqa: A002 - what callers write


class NoSink:
    """Takes no notice."""

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        return


NO_SINK = NoSink()


class QueuedEvent(msgspec.Struct, frozen=True):
    type: str
    event: Any
    """The typed record: `StageRetryScheduled`, say."""


class EventQueue:
    """Keeps events until someone takes them; when it is full the newest are dropped, and counted.

    It is strict: an event must be of a known type and have its fields, or whoever emits it gets EventRefusedError.
    `types` adds event types of your own (name -> msgspec.Struct).
    """

    def __init__(self, limit: int = 1000, types: Mapping[str, type[msgspec.Struct]] | None = None) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit: {limit!r} is not allowed; use a whole number from 1")
        self.limit = limit
        self.dropped = 0
        """Events that were lost because the queue was full."""
        self.refused = 0
        """Events that were not what they said they were."""
        self._types = {**EVENT_TYPES, **(types or {})}
        self._waiting: deque[QueuedEvent] = deque()
        self._arrived = asyncio.Event()

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        kind = self._types.get(type)
        if kind is None:
            self.refused += 1
            raise EventRefusedError(f"{type!r} is not an event; there are {', '.join(self._types)}")
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
        """All that waits, oldest first."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._arrived.clear()
        return taken

    async def get(self) -> QueuedEvent:
        """The oldest event, once there is one."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def __len__(self) -> int:
        return len(self._waiting)


class WatchedSink:
    """Hands everything on, and knows whether an event of one type was among it."""

    def __init__(self, sink: EventSink, awaited: str) -> None:
        self.seen = False
        self._sink = sink
        self._awaited = awaited

    def try_emit(self, type: str, data: Mapping[str, Any]) -> None:  # noqa: A002 - the protocol's name for it
        self.seen = self.seen or type == self._awaited
        self._sink.try_emit(type, data)


def put(sink: EventSink, event: msgspec.Struct) -> None:
    """Hand an event of redrive's own to a sink. A sink that fails harms no run."""
    if sink is NO_SINK:
        return
    try:
        sink.try_emit(EVENT_NAMES[type(event)], fields_of(event))
    except Exception as error:  # noqa: BLE001 - without its traceback, which may show what the event holds
        logging.getLogger("redrive").error(
            "the event sink %s failed; the run goes on: %s: %s",
            type(sink).__name__,
            type(error).__name__,
            message_of(error),
        )
