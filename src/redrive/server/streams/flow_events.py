"""Stream a flow's events as server-sent events, from any line on, until the flow has ended."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from redrive.client.app import App
from redrive.determinism.clock import current_clock
from redrive.errors import DeserializationError, StoreUnavailableError
from redrive.explain.hidden_payloads import hide_lines
from redrive.explain.log_line import BrokenEvent, LogLine, public_lines
from redrive.failures.redaction import redact
from redrive.flows.events import ENDINGS
from redrive.server.access.api_keys import Caller
from redrive.server.settings import ServerSettings
from redrive.server.streams.places import StreamPlaces
from redrive.stores.records import FINISHED, EventRow
from redrive.worker.event_rows import lines_of

PAGE_SIZE = 100


Place = tuple[int, int]
"""A place in the log: the number of a line, and the last of its parts that was read."""
WHOLE = 2**31
"""The part of a place that follows a whole line, with all its parts."""


async def events_after(app: App, flow_id: str, after: Place, limit: int, caller: Caller) -> list[LogLine]:
    """Return the events after this place, as the caller may see them: those of at least `limit` lines, if there are."""
    seq, part = after
    if part == WHOLE or not seq:
        rows = await app.store.read_events_after(flow_id, seq, limit)
    else:
        # The rest of that line comes first.
        rows = await app.store.read_events_after(flow_id, seq - 1, limit + 1)
    # The first row may begin with lines that precede it.
    return [line for line in _read(rows, caller) if (line.seq, line.part) > after]


def _read(rows: list[EventRow], caller: Caller) -> list[LogLine]:
    try:
        lines = lines_of(rows)
    except DeserializationError as error:
        if len(rows) == 1:
            return [LogLine(rows[0].seq, rows[0].at, BrokenEvent(redact(str(error), 300)))]
        # One row that cannot be read does not hide the others.
        return [line for row in rows for line in _read([row], caller)]
    return public_lines(lines if caller.sees_payloads else hide_lines(lines))


class EventStreams:
    """Streams the logs of flows; still_valid: whether a caller may go on reading."""

    def __init__(
        self, settings: ServerSettings, places: StreamPlaces, still_valid: Callable[[Caller], Awaitable[bool]]
    ) -> None:
        self._settings = settings
        self._places = places
        self._still_valid = still_valid

    async def begin(
        self, app: App, flow_id: str, after: Place, caller: Caller, client: str = ""
    ) -> AsyncIterator[bytes]:
        """Return the stream of the flow's events after `after`; ProblemError if too many streams are open.

        client: the API key or address whose share of the streams it uses.
        """
        self._places.check(client)
        stream = self._stream(app, flow_id, after, caller, client)
        # Once begun, the generator gives up its place however the stream ends.
        await anext(stream)
        return stream

    async def _stream(self, app: App, flow_id: str, after: Place, caller: Caller, client: str) -> AsyncIterator[bytes]:
        clock = current_clock()
        with self._places.hold(client):
            yield b""
            yield b": the log of the flow, line by line\n\n"
            last_sent = clock.monotonic()
            may_have_ended = True
            while not self._places.are_closing:
                with contextlib.suppress(StoreUnavailableError):
                    if not await self._still_valid(caller):
                        return
                    events = await events_after(app, flow_id, after, PAGE_SIZE, caller)
                    for event in events:
                        # Encoded JSON has no line breaks, so it is one line of data.
                        yield b"id: %s\ndata: %s\n\n" % (event.id.encode(), msgspec.json.encode(event))
                        last_sent = clock.monotonic()
                        may_have_ended = may_have_ended or isinstance(event.event, ENDINGS)
                    if events:
                        after = (events[-1].seq, WHOLE)
                        continue
                    # The last event and the status are committed together, but a redrive may have followed.
                    if may_have_ended and (status := await _final_status(app, flow_id)):
                        if await events_after(app, flow_id, after, 1, caller):
                            # The flow ended between the two reads.
                            continue
                        yield b'event: end\ndata: {"status":"%s"}\n\n' % status.encode()
                        return
                    may_have_ended = False
                if clock.monotonic() - last_sent >= self._settings.heartbeat:
                    yield b": heartbeat\n\n"
                    last_sent, may_have_ended = clock.monotonic(), True
                await self._places.pause(self._settings.poll)


async def _final_status(app: App, flow_id: str) -> str:
    """Return the status of a flow that has ended, else an empty string."""
    record = await app.store.find_flow(flow_id)
    if record is None:
        return "gone"
    return record.status if record.status in FINISHED else ""
