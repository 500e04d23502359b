"""Read the body of an answer, and no more of it than is allowed, packed or not."""

import zlib

import aiohttp

from redrive.runners.http.errors import BadAnswer

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_LITTLE = 1024
_PLAIN = ("", "identity")
_PACKED = ("gzip", "x-gzip", "deflate")


async def read_body(response: aiohttp.ClientResponse, largest: int) -> bytes | None:
    """None when it is larger; one that is cut off is raised as aiohttp does."""
    unpack = _unpacking(response)
    body, received = bytearray(), 0
    async for piece in response.content.iter_any():
        received += len(piece)
        body += piece if unpack is None else unpack.some(piece, largest + 1 - len(body))
        # What is packed is no larger than what is in it, but for a little.
        if len(body) > largest or received > 2 * largest + _LITTLE:
            # What is left of it would have to be read before the connection could be used again.
            response.close()
            return None
    if unpack is not None:
        unpack.check_end()
    return bytes(body)


class _Unpacking:
    """Unpacked in pieces of bounded size, so that a small body cannot become a huge one."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._is_empty = True

    def some(self, packed: bytes, most: int) -> bytes:
        unpacked = b""
        try:
            while packed and len(unpacked) < most:
                self._is_empty = False
                if self._decompressor.eof:
                    # Several that follow each other are one.
                    self._decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
                unpacked += self._decompressor.decompress(packed, most - len(unpacked))
                packed = self._decompressor.unused_data
        except zlib.error:
            raise BadAnswer(
                "the body of the answer is not encoded as its Content-Encoding says", self._status
            ) from None
        return unpacked

    def check_end(self) -> None:
        # No body at all is none that was packed.
        if not self._is_empty and not self._decompressor.eof:
            raise aiohttp.ClientPayloadError("the packed body of the answer ends half way")


def _unpacking(response: aiohttp.ClientResponse) -> _Unpacking | None:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _PLAIN:
        return None
    if encoding in _PACKED:
        return _Unpacking(response.status)
    raise BadAnswer(
        f"the answer has the Content-Encoding {encoding[:20]!r}, which was not asked for; use gzip or none",
        response.status,
    )
