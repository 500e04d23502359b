"""A network between store and server that can be cut, and that can keep what was sent and deliver it late."""

import asyncio
from types import TracebackType

from tests.postgres_server import PostgresServer


class Proxy:
    """Forwards connections to the server; used with `async with`."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self._clients: list[asyncio.StreamWriter] = []
        self._upstreams: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._gate = _open_gate()
        self._closed_gates: list[asyncio.Event] = []
        self.kept = asyncio.Event()
        """Set when something that was sent is kept back."""
        self.late_answers = asyncio.Event()
        """Set when the server answered somebody who was cut off."""

    def url(self, database: str) -> str:
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()
        return f"postgresql://postgres@{host}:{port}/{database.rpartition('/')[2]}"

    def keep(self) -> None:
        """From now on nothing that is sent through the connections there are reaches the server."""
        self._gate.clear()
        self._closed_gates.append(self._gate)
        self._gate = _open_gate()

    def deliver(self) -> None:
        """What was kept back reaches the server, and everything flows again."""
        for gate in self._closed_gates:
            gate.set()

    def cut_off_clients(self) -> None:
        """Their connections break; the server does not hear of it."""
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    def refuse(self) -> None:
        """From now on nobody can connect."""
        assert self._listener is not None
        self._listener.close()

    async def __aenter__(self) -> "Proxy":
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut_off_clients()
        for upstream in self._upstreams:
            upstream.transport.abort()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._listener.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answers, upstream = await asyncio.open_connection(self._server.host, self._server.port)
        self._clients.append(client)
        self._upstreams.append(upstream)
        for pump in (self._send(reader, upstream, self._gate), self._answer(answers, client)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)

    async def _send(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        while data := await _read(reader):
            if not gate.is_set():
                self.kept.set()
                await gate.wait()
            upstream.write(data)

    async def _answer(self, answers: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await _read(answers):
            if client.transport.is_closing():
                self.late_answers.set()
            else:
                client.write(data)
        client.close()


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(2**16)
    except ConnectionError:
        return b""
