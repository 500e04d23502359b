"""Stream whole snapshots of a resource, whenever it has changed.

A snapshot is the JSON that the endpoint answers. Streams that show the same to callers with the same rights share one
view, which asks the endpoint once for all of them. Because each snapshot is whole, a stream that broke off resumes
without loss, and a slow reader gets the latest one only.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import msgspec

from redrive.determinism.clock import current_clock
from redrive.errors import StoreUnavailableError
from redrive.failures.traces import trace_of
from redrive.server.access.api_keys import Caller
from redrive.server.contract.problems import ProblemError, problem_for
from redrive.server.settings import ServerSettings
from redrive.server.streams.places import StreamPlaces
from redrive.stores.interface import Store

log = logging.getLogger("redrive.server")

Ask = Callable[[], Awaitable[bytes]]
"""Returns the JSON of the resource as it is now."""
REST = 4.0
"""A view that takes long to read rests for this many times as long."""
SENT_AT_ONCE = 256 * 1024


class LiveViews:
    """The views that streams show now. still_valid: whether a caller may go on reading."""

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        places: StreamPlaces,
        still_valid: Callable[[Caller], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._places = places
        self._still_valid = still_valid
        self._views: dict[object, _View] = {}
        self._stop_listening: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._views)

    async def begin(
        self, what: str, ask: Ask, caller: Caller, client: str, last_id: str | None, passing: tuple[str, ...] = ()
    ) -> AsyncIterator[bytes]:
        """Return the stream of the snapshots of `what`; ProblemError if too many streams are open.

        client: the API key or address whose share of the streams it uses. last_id: the snapshot that the client has.
        passing: fields whose change alone is none.
        """
        self._places.check(client)
        key = (what, caller.role, caller.queues, caller.definitions)
        if key not in self._views:
            if not self._views:
                self._stop_listening = self._store.on_wake(self._wake)
            self._views[key] = _View(ask, self._settings, self._places, passing)
        view = self._views[key]
        stream = self._stream(key, view, caller, client, last_id)
        # Once begun, the generator gives up its place however the stream ends.
        await anext(stream)
        try:
            # An error becomes an ordinary answer.
            await view.first_snapshot()
        except BaseException:
            await stream.aclose()
            raise
        return stream

    def _wake(self) -> None:
        for view in self._views.values():
            view.woken.set()

    def _leave(self, key: object, view: "_View") -> None:
        view.readers -= 1
        if not view.readers:
            view.stop()
            del self._views[key]
            if not self._views:
                self._stop_listening()

    async def _stream(
        self, key: object, view: "_View", caller: Caller, client: str, last_id: str | None
    ) -> AsyncGenerator[bytes, None]:
        clock = current_clock()
        view.readers += 1
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._leave, key, view)
            cleanup.enter_context(self._places.hold(client))
            yield b""
            yield b": snapshots, whenever something has changed\n\n"
            seen, told, last_sent = last_id, b"", clock.monotonic()
            while not self._places.are_closing:
                # Taken first, so that a change while this one is sent is not missed.
                changed = view.changed
                with contextlib.suppress(StoreUnavailableError):
                    if not await self._still_valid(caller):
                        return
                if view.has_ended:
                    # The client connects again, and gets the problem as its answer.
                    return
                if view.trouble and view.trouble != told:
                    told = view.trouble
                    yield b"event: problem\ndata: %s\n\n" % told
                    last_sent = clock.monotonic()
                elif not view.trouble and (told or view.id != seen):
                    seen, told, event = view.id, b"", view.event
                    for first in range(0, len(event), SENT_AT_ONCE):
                        yield event[first : first + SENT_AT_ONCE]
                    last_sent = clock.monotonic()
                elif clock.monotonic() - last_sent >= self._settings.heartbeat:
                    yield b": heartbeat\n\n"
                    last_sent = clock.monotonic()
                await self._places.pause(min(self._settings.live_interval, self._settings.heartbeat), changed)


class _View:
    """One resource, as callers with the same rights see it."""

    def __init__(self, ask: Ask, settings: ServerSettings, places: StreamPlaces, passing: tuple[str, ...]) -> None:
        self._ask = ask
        self._passing = passing
        self._settings = settings
        self._places = places
        self.readers = 0
        self.id = ""
        self.event = b""
        """The latest snapshot, as it is sent."""
        self.trouble = b""
        """The problem for which the latest snapshot may be out of date; empty: it is not."""
        self.has_ended = False
        """Whether the resource is gone, or can no longer be read."""
        self.changed = asyncio.Event()
        """Set at the next change; then another one takes its place."""
        self.woken = asyncio.Event()
        """Set when the store may have changed."""
        self._first: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None

    async def first_snapshot(self) -> None:
        """Return once there is a snapshot; raises what the endpoint raises."""
        if self._first is None:
            self._first = asyncio.create_task(self._look())
        # Shared with others, who still wait for it when this caller is gone.
        await asyncio.shield(self._first)
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    def stop(self) -> None:
        for task in (self._first, self._following):
            if task is not None:
                task.cancel()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        took = 0.0
        while not self._places.are_closing:
            spacing = max(self._settings.live_spacing, took * REST)
            await self._places.pause(spacing)
            await self._places.pause(self._settings.live_interval - spacing, self.woken)
            self.woken.clear()
            began = loop.time()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, the readers are told
                self._fail(error)
                if self.has_ended:
                    return
            took = loop.time() - began

    async def _look(self) -> None:
        body = await self._ask()
        id_ = _digest(body, self._passing)
        if id_ != self.id or self.trouble:
            self.id, self.trouble = id_, b""
            # Encoded JSON has no line breaks, so it is one line of data.
            self.event = b"id: %s\nevent: snapshot\ndata: %s\n\n" % (id_.encode(), body)
            self._tell()

    def _fail(self, error: Exception) -> None:
        raised = problem_for(error)
        if raised.problem.status == 500 and not isinstance(error, ProblemError):
            log.error("a live view failed\n%s", trace_of(error))
        self.has_ended = raised.problem.status != 503
        if self.trouble != raised.body:
            self.trouble = raised.body
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def _digest(body: bytes, passing: tuple[str, ...]) -> str:
    """Return a digest of the JSON without these fields."""
    digest = hashlib.blake2b(digest_size=12)
    # The fields are not decoded, only told apart.
    for name, value in _FIELDS.decode(body).items():
        if name not in passing:
            digest.update(name.encode())
            digest.update(memoryview(value))
    return digest.hexdigest()


_FIELDS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
