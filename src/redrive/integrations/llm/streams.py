"""Guarded streams of model calls: retried and passed to another model until the first output."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import TracebackType
from typing import Any

from redrive.calls.generator_driver import guarded_by
from redrive.calls.retry_protocol import Failed, Outcome, Succeeded
from redrive.errors import ResponseFailedError
from redrive.integrations.llm.model_call import ModelCall, ModelRequest
from redrive.integrations.llm.model_report import ModelReport
from redrive.integrations.llm.response_shapes import empty_stream, ends_explicitly, is_end, is_preamble

# More announcements than any API sends before its first output.
MOST_HELD = 100

StartCall = Callable[[Callable[[ModelReport], None]], ModelCall]


class _Reading:
    """Reads the chunks of one stream: holds back what only announces output, so that an error may still be retried."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._held: list[Any] = []
        self._handing_on = False
        self._began = False
        self._must_end = False
        self._ended = False

    def feed(self, chunk: Any) -> list[Any]:
        """Return the chunks to hand on now."""
        self._request.accept(chunk)
        self._began = True
        self._must_end = self._must_end or ends_explicitly(chunk)
        self._ended = self._ended or is_end(chunk)
        self._held.append(chunk)
        if not self._handing_on and is_preamble(chunk) and len(self._held) < MOST_HELD:
            return []
        self._handing_on = True
        ready, self._held = self._held, []
        return ready

    def end(self) -> list[Any]:
        """Return what is still held back at the end; raises if the stream ended before the answer did."""
        if self._must_end and not self._ended:
            raise ResponseFailedError("the stream ended before the answer was complete", "stream_cut")
        if not self._began and (failed := empty_stream(self._request.model.method)) is not None:
            raise failed
        self._request.finished()
        return self._held


def _chunks(request: ModelRequest) -> Generator[Any, None, None]:
    reading, stream = _Reading(request), request.send()
    try:
        for chunk in stream:
            yield from reading.feed(chunk)
        yield from reading.end()
    finally:
        if (close := getattr(stream, "close", None)) is not None:
            close()


async def _async_chunks(request: ModelRequest) -> AsyncGenerator[Any, None]:
    reading, stream = _Reading(request), request.send()
    if inspect.isawaitable(stream):
        stream = await stream
    try:
        async for chunk in stream:
            for ready in reading.feed(chunk):
                yield ready
        for ready in reading.end():
            yield ready
    finally:
        close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing


def _items(call: ModelCall) -> Generator[Any, None, None]:
    try:
        request = next(call)
        while True:
            outcome: Outcome = Succeeded(None)
            try:
                yield from guarded_by(lambda r=request: r.call, _chunks, False)(request)  # type: ignore[misc]  # a default binds
            except Exception as error:  # noqa: BLE001 - the chain decides what becomes of it
                outcome = Failed(error)
            request = call.send(outcome)
            del outcome
    except StopIteration:
        return


async def _async_items(call: ModelCall) -> AsyncGenerator[Any, None]:
    try:
        request = next(call)
        while True:
            outcome: Outcome = Succeeded(None)
            items = guarded_by(lambda r=request: r.call, _async_chunks, True)(request)  # type: ignore[misc]  # a default binds
            try:
                async for item in items:
                    yield item
            except Exception as error:  # noqa: BLE001 - the chain decides what becomes of it
                outcome = Failed(error)
            finally:
                await items.aclose()
            request = call.send(outcome)
            del outcome
    except StopIteration:
        return


class Chunks:
    """The chunks of one answer, as the SDK makes them. Close it, or use `with`, if not all of it is read."""

    def __init__(self, start: StartCall) -> None:
        self.report: ModelReport | None = None
        """What the call did; None until the stream has ended."""
        self._items = _items(start(self._ended))

    def _ended(self, report: ModelReport) -> None:
        self.report = report

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._items)

    def close(self) -> None:
        self._items.close()

    def __enter__(self) -> "Chunks":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncChunks:
    """Does the same for async clients. Close it, or use `async with`, if not all of it is read."""

    def __init__(self, start: StartCall) -> None:
        self.report: ModelReport | None = None
        self._items = _async_items(start(self._ended))

    def _ended(self, report: ModelReport) -> None:
        self.report = report

    def __aiter__(self) -> "AsyncChunks":
        return self

    async def __anext__(self) -> Any:
        return await anext(self._items)

    async def aclose(self) -> None:
        await self._items.aclose()

    async def __aenter__(self) -> "AsyncChunks":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
