"""Bodies in aiohttp: requests that are sent again, and responses that are read ahead."""

import asyncio
from typing import Any

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.payload import AsyncIterablePayload, BytesPayload

# Nothing flows into a buffer of what was read ahead, so it never has to hold anything back.
UNLIMITED = 2**40


def sent_once(body: Any) -> bool:
    """Whether the body of a request is used up once it was sent."""
    if isinstance(body, aiohttp.MultipartWriter):
        return body.consumed or any(sent_once(part) for part, *_ in body)
    return isinstance(body, AsyncIterablePayload) or bool(getattr(body, "consumed", False))


async def content_of(body: Any) -> bytes | None:
    """The bytes of a body that is held in memory."""
    return await body.as_bytes() if isinstance(body, BytesPayload) else None


async def read_ahead(response: aiohttp.ClientResponse, limit: int) -> None:
    """Read the body up to `limit`; one that ends before has given back its connection."""
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
    """What was read ahead of a body, then the rest of it."""

    def __init__(self, ahead: list[bytes], rest: aiohttp.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(BaseProtocol(loop), UNLIMITED, loop=loop)
        self._rest = rest
        for chunk in ahead:
            self.feed_data(chunk)
        if rest.at_eof():
            self.feed_eof()

    async def _wait(self, func_name: str) -> None:
        """Called when what is here has been read: get more."""
        if chunk := await self._rest.readany():
            self.feed_data(chunk)
        else:
            self.feed_eof()
