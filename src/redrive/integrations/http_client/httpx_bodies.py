"""Bodies of httpx and httpx2: how to send a request body again, and reading a response body ahead.

httpx2 continues httpx with the same classes under another name, so both share this code; `library` is one of the two.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from redrive.integrations.http_client.rewinding import Rewind, no_rewind, rewind_of


def rewind_of_stream(library: Any, stream: Any) -> Rewind | None:
    """Return a function that rewinds the stream; None if it can be read only once."""
    if isinstance(stream, library.ByteStream):
        return no_rewind
    # The other stream classes are private: look at their contents.
    fields = getattr(stream, "fields", None)
    if isinstance(fields, list):
        files = [getattr(field, "file", None) for field in fields]
        return no_rewind if all(rewind_of(file) is not None for file in files) else None
    return rewind_of(getattr(stream, "_stream", stream))


class _Continued:
    """A body whose beginning has been read ahead."""

    def __init__(self, ahead: list[bytes], rest: Iterable[bytes], stream: Any) -> None:
        self._ahead = ahead
        self._rest = rest
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._ahead
        yield from self._rest

    def close(self) -> None:
        self._stream.close()


class _ContinuedAsync:
    """An async body whose beginning has been read ahead."""

    def __init__(self, ahead: list[bytes], rest: AsyncIterator[bytes] | None, stream: Any) -> None:
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


@lru_cache
def _stream_class(library: Any, body: type, base: str) -> Any:
    """Return the body as a stream class of the library, whose client accepts no other."""
    return type(body.__name__, (body, getattr(library, base)), {})


def read_ahead(library: Any, response: Any, limit: int, check_time: Callable[[], None]) -> None:
    """Read the body up to `limit` bytes. Reading a shorter body to its end releases the connection."""
    continued = _stream_class(library, _Continued, "SyncByteStream")
    stream = response.stream
    ahead: list[bytes] = []
    size = 0
    rest = iter(stream)
    try:
        for chunk in rest:
            ahead.append(chunk)
            size += len(chunk)
            if size > limit:
                response.stream = continued(ahead, rest, stream)
                return
            check_time()
    except BaseException:
        stream.close()
        raise
    stream.close()
    response.stream = continued(ahead, (), stream)


async def read_ahead_async(library: Any, response: Any, limit: int) -> None:
    """Do the same for an async body."""
    continued = _stream_class(library, _ContinuedAsync, "AsyncByteStream")
    stream = response.stream
    ahead: list[bytes] = []
    size = 0
    rest = aiter(stream)
    try:
        async for chunk in rest:
            ahead.append(chunk)
            size += len(chunk)
            if size > limit:
                response.stream = continued(ahead, rest, stream)
                return
    except BaseException:
        await stream.aclose()
        raise
    await stream.aclose()
    response.stream = continued(ahead, None, stream)
