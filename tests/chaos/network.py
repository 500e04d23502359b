"""A network that a storm breaks: a TCP proxy that drops, delays and cuts, in one direction too.

It runs in a process of its own, so that nothing else slows it down, and has one port for each client:
`python -m tests.chaos.network TARGET_PORT PORTS`. Commands come as lines on standard input: `LINK WORD [SECONDS]`.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

ROOT = Path(__file__).parents[2]
CHUNK = 2**16
Fault = Literal["cut", "drop", "drop_answers", "drop_requests", "delay", "heal"]
"""cut: reset all connections. drop: lose what is sent, either way or one way. delay: hold everything up. heal: stop."""
RETARGET = "retarget"


class Network:
    """Starts the proxy; `port(link)` is where a client connects, `do(link, fault)` breaks its link."""

    def __init__(self, target: int, links: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own proxy
            [sys.executable, "-m", "tests.chaos.network", str(target), str(links)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._ports: list[int] = json.loads(self._process.stdout.readline())

    def port(self, link: int) -> int:
        return self._ports[link]

    def do(self, link: int, fault: Fault, seconds: float = 0.0) -> None:
        """Break a link; with `seconds`, a delay of so much for each piece that is sent."""
        self._tell(link, fault, seconds)

    def _tell(self, link: int, word: str, number: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{link} {word} {number}\n")
        self._process.stdin.flush()

    def retarget(self, port: int) -> None:
        """Lead all links to another port, as after a failover; connections are cut."""
        for link in range(len(self._ports)):
            self._tell(link, RETARGET, port)

    def heal(self) -> None:
        for link in range(len(self._ports)):
            self.do(link, "heal")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


class _Link:
    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._drops_requests = self._drops_answers = False
        self._delay = 0.0

    def do(self, fault: str, seconds: float) -> None:
        if fault == "cut":
            self._abort()
        elif fault == RETARGET:
            self._target = int(seconds)
            self._abort()
        elif fault == "delay":
            self._delay = seconds
        elif fault == "heal":
            if self._drops_requests or self._drops_answers:
                # Bytes are missing: what was begun can only fail, as it would once TCP gave up.
                self._abort()
            self._drops_requests = self._drops_answers = False
            self._delay = 0.0
        else:
            self._drops_requests = fault in ("drop", "drop_requests")
            self._drops_answers = fault in ("drop", "drop_answers")

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.transport.abort()
            return
        self._writers |= {client, server}
        try:
            await asyncio.gather(
                self._pump(reader, server, lambda: self._drops_requests),
                self._pump(answers, client, lambda: self._drops_answers),
            )
        finally:
            for writer in (client, server):
                self._writers.discard(writer)
                writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drops: Callable[[], bool]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if not drops():
                    writer.write(data)
                    await writer.drain()
            writer.close()


async def run(target: int, links: int) -> None:
    made = [_Link(target) for _ in range(links)]
    servers = [await asyncio.start_server(link.connected, "127.0.0.1", 0) for link in made]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)  # noqa: T201 - the ports
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        link, fault, seconds = line.split()
        made[int(link)].do(fault, float(seconds))


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
