"""A pool as people put it in front of PostgreSQL: it lends sessions to connections, for good or for a transaction."""

import asyncio
import contextlib
from types import TracebackType

from tests.postgres_server import PostgresServer

_HEAD = 5
_END_OF_ANSWER, _KEY, _GOODBYE = b"Z", b"K", b"X"
_IDLE = b"I"
_ENCRYPTION = 80877103


class _Session:
    """One of the server's, and what the server said when it let us in."""

    def __init__(self, answers: asyncio.StreamReader, requests: asyncio.StreamWriter) -> None:
        self.answers = answers
        self.requests = requests
        self.welcome = b""
        self.is_free = asyncio.Lock()
        self.lent_to: asyncio.StreamWriter | None = None
        self.pump: asyncio.Task[None] | None = None

    async def pass_on(self) -> None:
        """Answers go to the connection that has the session, which gives it back at the end of its transaction."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, message = await _message(self.answers)
                assert self.lent_to is not None
                self.lent_to.write(message)
                if kind == _END_OF_ANSWER and message.endswith(_IDLE):
                    self.lent_to = None
                    self.is_free.release()


class Pool:
    """Used with `async with`. `shared`: one session serves all connections, a transaction at a time."""

    def __init__(self, server: PostgresServer, shared: bool) -> None:
        self._server = server
        self._shared = shared
        self._sessions: list[_Session] = []
        self._listener: asyncio.Server | None = None

    def url(self, database: str) -> str:
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()
        return f"postgresql://postgres@{host}:{port}/{database.rpartition('/')[2]}"

    async def __aenter__(self) -> "Pool":
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for session in self._sessions:
            session.requests.transport.abort()

    async def _connected(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with contextlib.closing(client), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(requests, client)

    async def _serve(self, requests: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        startup = await _startup(requests)
        if int.from_bytes(startup[4:8]) == _ENCRYPTION:
            client.write(b"N")
            startup = await _startup(requests)
        session = await self._session(startup)
        client.write(session.welcome)
        while True:
            kind, message = await _message(requests)
            if kind == _GOODBYE:
                return
            if session.lent_to is not client:
                await session.is_free.acquire()
                session.lent_to = client
            session.requests.write(message)

    async def _session(self, startup: bytes) -> _Session:
        if self._shared and self._sessions:
            return self._sessions[0]
        session = _Session(*await asyncio.open_connection(self._server.host, self._server.port))
        session.requests.write(startup)
        kind = b""
        while kind != _END_OF_ANSWER:
            kind, message = await _message(session.answers)
            # Pools make up numbers of their own for those who want to cancel something.
            session.welcome += message[:_HEAD] + bytes(len(message) - _HEAD) if kind == _KEY else message
        session.pump = asyncio.create_task(session.pass_on())
        self._sessions.append(session)
        return session


async def _startup(requests: asyncio.StreamReader) -> bytes:
    head = await requests.readexactly(4)
    return head + await requests.readexactly(int.from_bytes(head) - 4)


async def _message(stream: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await stream.readexactly(_HEAD)
    return head[:1], head + await stream.readexactly(int.from_bytes(head[1:]) - 4)
