"""aiohttp bodies: whether a request body can be sent again, and reading a response body ahead."""

import asyncio
from typing import Any

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.payload import AsyncIterablePayload, BytesPayload

# The buffer is filled from memory only, so it needs no flow control.
UNLIMITED = 2**40


def sent_once(body: Any) -> bool:
    """Whether the body of a request can be sent only once."""
    if isinstance(body, aiohttp.MultipartWriter):
        return body.consumed or any(sent_once(part) for part, *_ in body)
    return isinstance(body, AsyncIterablePayload) or bool(getattr(body, "consumed", False))


async def content_of(body: Any) -> bytes | None:
    """Return the bytes of a body that is in memory, otherwise None."""
    return await body.as_bytes() if isinstance(body, BytesPayload) else None


async def read_ahead(response: aiohttp.ClientResponse, limit: int) -> None:
    """Read the body up to `limit` bytes. Reading a shorter body to its end releases the connection."""
    stream = response.content
    ahead: list[bytes] = []
    size = 0
    try:
        while size <= limit and (chunk := await stream.readany()):
            ahead.append(chunk)
            size += len(chunk)
    except BaseException:
        response.close()
        raise
    if ahead:
        response.content = _Continued(ahead, stream)


class _Continued(aiohttp.StreamReader):
    """A body whose beginning has been read ahead."""

    def __init__(self, ahead: list[bytes], rest: aiohttp.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(BaseProtocol(loop), UNLIMITED, loop=loop)
        self._rest = rest
        for chunk in ahead:
            self.feed_data(chunk)
        if rest.at_eof():
            self.feed_eof()

    async def _wait(self, func_name: str) -> None:
        """Fetch more; called when everything read ahead has been consumed."""
        if chunk := await self._rest.readany():
            self.feed_data(chunk)
        else:
            self.feed_eof()
