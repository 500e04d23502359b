"""httpx bodies: how to send a request body again, and reading a response body ahead."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import httpx

from redrive.integrations.http_client.rewinding import Rewind, no_rewind, rewind_of


def rewind_of_stream(stream: httpx.SyncByteStream | httpx.AsyncByteStream) -> Rewind | None:
    """Return a function that rewinds the stream; None if it can be read only once."""
    if isinstance(stream, httpx.ByteStream):
        return no_rewind
    # The other stream classes of httpx are private: look at their contents.
    fields = getattr(stream, "fields", None)
    if isinstance(fields, list):
        files = [getattr(field, "file", None) for field in fields]
        return no_rewind if all(rewind_of(file) is not None for file in files) else None
    return rewind_of(getattr(stream, "_stream", stream))


class _Continued(httpx.SyncByteStream):
    """A body whose beginning has been read ahead."""

    def __init__(self, ahead: list[bytes], rest: Iterable[bytes], stream: httpx.SyncByteStream) -> None:
        self._ahead = ahead
        self._rest = rest
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._ahead
        yield from self._rest

    def close(self) -> None:
        self._stream.close()


class _ContinuedAsync(httpx.AsyncByteStream):
    """An async body whose beginning has been read ahead."""

    def __init__(self, ahead: list[bytes], rest: AsyncIterator[bytes] | None, stream: httpx.AsyncByteStream) -> None:
        self._ahead = ahead
        self._rest = rest
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._ahead:
            yield chunk
        if self._rest is not None:
            async for chunk in self._rest:
                yield chunk

    async def aclose(self) -> None:
        close_iterator = getattr(self._rest, "aclose", None)
        if close_iterator is not None:
            await close_iterator()
        await self._stream.aclose()


def read_ahead(response: httpx.Response, limit: int, check_time: Callable[[], None]) -> None:
    """Read the body up to `limit` bytes. Reading a shorter body to its end releases the connection."""
    stream = response.stream
    assert isinstance(stream, httpx.SyncByteStream)  # noqa: S101 - what a sync transport returns
    ahead: list[bytes] = []
    size = 0
    rest = iter(stream)
    try:
        for chunk in rest:
            ahead.append(chunk)
            size += len(chunk)
            if size > limit:
                response.stream = _Continued(ahead, rest, stream)
                return
            check_time()
    except BaseException:
        stream.close()
        raise
    stream.close()
    response.stream = _Continued(ahead, (), stream)


async def read_ahead_async(response: httpx.Response, limit: int) -> None:
    """Do the same for an async body."""
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101 - what an async transport returns
    ahead: list[bytes] = []
    size = 0
    rest = aiter(stream)
    try:
        async for chunk in rest:
            ahead.append(chunk)
            size += len(chunk)
            if size > limit:
                response.stream = _ContinuedAsync(ahead, rest, stream)
                return
    except BaseException:
        await stream.aclose()
        raise
    await stream.aclose()
    response.stream = _ContinuedAsync(ahead, None, stream)
