"""Read the body of an answer up to the allowed size, compressed or not."""

import zlib

import aiohttp

from redrive.runners.http.errors import BadAnswer

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_OVERHEAD = 1024
_PLAIN = ("", "identity")
_COMPRESSED = ("gzip", "x-gzip", "deflate")


async def read_body(response: aiohttp.ClientResponse, largest: int) -> bytes | None:
    """Return the body; None if it is larger than `largest`. A body that is cut off raises aiohttp's error."""
    decompressor = _decompressor(response)
    body, received = bytearray(), 0
    async for piece in response.content.iter_any():
        received += len(piece)
        body += piece if decompressor is None else decompressor.feed(piece, largest + 1 - len(body))
        # Compressed data is hardly larger than its content.
        if len(body) > largest or received > 2 * largest + _OVERHEAD:
            # Otherwise the rest would have to be read before the connection could be reused.
            response.close()
            return None
    if decompressor is not None:
        decompressor.check_end()
    return bytes(body)


class _Decompressor:
    """Decompresses in pieces of bounded size, so that a small body cannot become a huge one."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._is_empty = True

    def feed(self, data: bytes, most: int) -> bytes:
        content = b""
        try:
            while data and len(content) < most:
                self._is_empty = False
                if self._decompressor.eof:
                    # Several gzip members may follow each other.
                    self._decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
                content += self._decompressor.decompress(data, most - len(content))
                data = self._decompressor.unused_data
        except zlib.error:
            raise BadAnswer("the body of the answer does not match its Content-Encoding", self._status) from None
        return content

    def check_end(self) -> None:
        # An empty body is not a truncated one.
        if not self._is_empty and not self._decompressor.eof:
            raise aiohttp.ClientPayloadError("the compressed body of the answer is cut off")


def _decompressor(response: aiohttp.ClientResponse) -> _Decompressor | None:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _PLAIN:
        return None
    if encoding in _COMPRESSED:
        return _Decompressor(response.status)
    raise BadAnswer(
        f"the answer has the Content-Encoding {encoding[:20]!r}, which was not requested; use gzip or none",
        response.status,
    )
