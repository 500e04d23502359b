"""What `benchmarks.floods` sends at a server on this machine: bounded in number and in time, and to loopback only.

python -m benchmarks.flood_attacks slowloris PORT KEY FLOW SECONDS
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Awaitable, Callable

import msgspec

HOST = "127.0.0.1"
LONGEST = 120.0
UNDER_WAY = "under way"
HALF_SENT = 2_050
CONNECTS_A_SECOND = 400
BODIES_AT_ONCE = 40
MOST_BODIES = 2_000
BODY_SIZE = 7_500_000
STREAMS = 200
STREAMS_A_SECOND = 100


class Target(msgspec.Struct, frozen=True):
    port: int
    key: str
    flow_id: str

    def request(self, line: str, *more: str) -> bytes:
        return "\r\n".join(
            [f"{line} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {self.key}", *more, "", ""]
        ).encode()


async def slowloris(target: Target) -> None:
    """Half a request on each of many connections; those that the server closes are opened again."""
    half = target.request("GET /v1/flows", "X-Half: x")[:-4]
    await _held(HALF_SENT, CONNECTS_A_SECOND, lambda: _hold(target, half))


async def bodies(target: Target) -> None:
    """Large bodies, many at once, as fast as the server takes them."""
    body = b'{"action": "no_such_action", "inputs": {"x": "' + b"x" * BODY_SIZE + b'"}}'
    head = target.request("POST /v1/flows", "Content-Type: application/json", f"Content-Length: {len(body)}")
    left = MOST_BODIES

    async def send() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(HOST, target.port)
                try:
                    writer.write(head)
                    writer.write(body)
                    await reader.readuntil(b"\r\n\r\n")
                finally:
                    writer.transport.abort()

    print(UNDER_WAY, flush=True)
    await asyncio.gather(*(send() for _ in range(BODIES_AT_ONCE)))


async def streams(target: Target) -> None:
    """More event streams than there may be, opened again and again."""
    request = target.request(f"GET /v1/flows/{target.flow_id}/events", "Accept: text/event-stream")
    await _held(STREAMS, STREAMS_A_SECOND, lambda: _hold(target, request))


ATTACKS: dict[str, Callable[[Target], Awaitable[None]]] = {
    "slowloris": slowloris,
    "bodies": bodies,
    "streams": streams,
}


async def _hold(target: Target, sent: bytes) -> None:
    """Send, and read until the server closes the connection or refuses what was asked."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection(HOST, target.port)
        try:
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            while b" 200 " in head[:20] and await reader.read(65536):
                pass
        finally:
            writer.transport.abort()


async def _held(count: int, a_second: int, hold: Callable[[], Awaitable[None]]) -> None:
    """Keep `count` connections open, opening at most `a_second`; say so once as many have been opened."""
    held: set[asyncio.Task[None]] = set()
    for opened in itertools.count():
        if opened == count:
            print(UNDER_WAY, flush=True)
        if len(held) < count:
            task = asyncio.ensure_future(_run(hold))
            held.add(task)
            task.add_done_callback(held.discard)
        await asyncio.sleep(1 / a_second)  # noqa: TID251 - a flood has a rate, in real time


async def _run(hold: Callable[[], Awaitable[None]]) -> None:
    await hold()


async def attack(name: str, target: Target, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ATTACKS[name](target), min(seconds, LONGEST))


if __name__ == "__main__":
    _, _name, _port, _key, _flow_id, _seconds = sys.argv
    asyncio.run(attack(_name, Target(int(_port), _key, _flow_id), float(_seconds)))
