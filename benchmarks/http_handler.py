"""A handler that answers each step at once: `python -m benchmarks.http_handler` prints its port."""

import asyncio
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1"
END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length:"


class Handler(asyncio.Protocol):
    """As little as a handler can do: what is measured is the caller."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(END_OF_HEAD)) >= 0:
            head = self._received[:end].lower()
            start = head.find(LENGTH)
            length = int(head[start + len(LENGTH) :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            whole = end + len(END_OF_HEAD) + length
            if len(self._received) < whole:
                return
            self._received = self._received[whole:]
            assert self._transport is not None
            self._transport.write(ANSWER)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Handler, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with whoever started it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
