"""A handler that is down and then overloaded: `python -m benchmarks.recovering_server '{...}'` prints its port.

Its argument is an `Outage` as JSON. GET returns a `Count`; anything else is a step.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from time import perf_counter

import msgspec

BODY = b"\r\n\r\n"
LENGTH = b"content-length:"


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """How the server behaves, in seconds from its first request."""

    down: float = 20.0
    """It answers 503 until then."""
    rate: int = 50
    """Requests that it can do in each second afterwards."""
    queues: bool = False
    """Whether it keeps the others waiting instead of refusing them with 503."""
    again: tuple[float, float] = (0.0, 0.0)
    """From when until when, after its return, it is down once more."""


class Count(msgspec.Struct):
    """Of the requests since its return."""

    done: int = 0
    refused: int = 0
    """While it was up, or going down again."""
    last: float = 0.0
    """Seconds from its return to the last request that it did."""


class Server:
    def __init__(self, outage: Outage, clock: Callable[[], float] = perf_counter) -> None:
        self.outage = outage
        self.count = Count()
        self.down = 0
        """Requests while it was down."""
        self.in_second: Counter[int] = Counter()
        """Requests in each second after its return."""
        self.done_at: list[float] = []
        """When it did each request, in seconds after its return."""
        self._clock = clock
        self._began: float | None = None
        self._free_at = 0.0

    def answer_after(self) -> float | None:
        """Seconds until the request is answered; None when it is refused."""
        now, outage, count = self._clock(), self.outage, self.count
        if self._began is None:
            self._began = now
        up = now - self._began - outage.down
        if up < 0:
            self.down += 1
            return None
        self.in_second[int(up)] += 1
        if outage.again[0] <= up < outage.again[1]:
            count.refused += 1
            return None
        if outage.queues:
            self._free_at = max(self._free_at, up) + 1 / outage.rate
            count.done, count.last = count.done + 1, self._free_at
            self.done_at.append(self._free_at)
            return self._free_at - up
        if self.in_second[int(up)] > outage.rate:
            count.refused += 1
            return None
        count.done, count.last = count.done + 1, up
        self.done_at.append(up)
        return 0.0


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(BODY)) >= 0:
            head = self._received[:end].lower()
            start = head.find(LENGTH)
            length = int(head[start + len(LENGTH) :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            whole = end + len(BODY) + length
            if len(self._received) < whole:
                return
            self._received = self._received[whole:]
            if head.startswith(b"get"):
                self._write("200 OK", msgspec.json.encode(self._server.count))
            elif (after := self._server.answer_after()) is None:
                self._write("503 Service Unavailable", b"{}")
            elif after:
                asyncio.get_running_loop().call_later(after, self._write, "200 OK", b"1")
            else:
                self._write("200 OK", b"1")

    def _write(self, status: str, body: bytes) -> None:
        assert self._transport is not None
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def main() -> None:
    server = Server(msgspec.json.decode(sys.argv[1], type=Outage))
    listening = await asyncio.get_running_loop().create_server(lambda: Connection(server), "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    # Ends with whoever started it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
