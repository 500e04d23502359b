"""Answer the probes of a service manager: is the process alive, is it ready, and what are its metrics?

A server of a few dozen lines, so that a worker needs no extra for it. It reads no bodies and keeps no connections.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from redrive.cli.bad_input import BadInput
from redrive.errors import StoreError
from redrive.failures.redaction import redact
from redrive.telemetry.queue_counts import refresh_counts

if TYPE_CHECKING:
    from redrive.client.app import App

LARGEST_REQUEST = 8 * 1024
REQUEST_TIME = 5.0
"""Seconds for a request to arrive, and for its answer to be taken."""
STORE_TIME = 2.0
"""Seconds within which the store must answer."""
MOST_CONNECTIONS = 32
PLAIN = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class HealthAddress(NamedTuple):
    host: str
    port: int


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = PLAIN


@contextlib.asynccontextmanager
async def health_server(app: "App", address: HealthAddress) -> AsyncIterator[str]:
    """Serve until the block ends. Yields the URL."""
    server = _HealthServer(app)
    try:
        listening = await asyncio.start_server(server.serve, *address, limit=LARGEST_REQUEST)
    except OSError as error:
        raise BadInput(
            f"--health: cannot listen on {address.host}:{address.port}: {error.strerror or error}; use another port"
        ) from None
    host, port = listening.sockets[0].getsockname()[:2]
    try:
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        listening.close()
        server.close()


class _HealthServer:
    def __init__(self, app: "App") -> None:
        self._app = app
        self._metrics, self._stop_metrics = _metrics()
        self._open: set[asyncio.StreamWriter] = set()

    def close(self) -> None:
        self._stop_metrics()
        for writer in self._open:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(REQUEST_TIME):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head)
            async with asyncio.timeout(REQUEST_TIME):
                writer.write(_written(answer, with_body=not head.startswith(b"HEAD ")))
                await writer.drain()
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            # A client that is gone, too slow or too long is not answered.
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, head: bytes) -> Answer:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path not in ("/healthz", "/readyz", "/metrics"):
            return Answer(404, b"use /healthz, /readyz or /metrics\n")
        if method not in ("GET", "HEAD"):
            return Answer(405, b"use GET\n")
        if path == "/healthz":
            # Answered by the event loop: one that is blocked does not answer.
            return Answer(200, b"ok\n")
        if path == "/readyz":
            trouble = await self._trouble()
            return Answer(200, b"ok\n") if trouble is None else Answer(503, f"{trouble}\n".encode())
        if self._metrics is None:
            return Answer(404, b"metrics need the extra 'metrics': pip install 'redrive[metrics]'\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_TIME):
                await refresh_counts()
        return Answer(200, self._metrics(), METRICS)

    async def _trouble(self) -> str | None:
        """Why the worker takes no work now; None when it does."""
        if (trouble := self._app.worker_trouble) is not None:
            return trouble
        address = self._app.store.address
        try:
            async with asyncio.timeout(STORE_TIME):
                await self._app.store.find_flow("")
        except TimeoutError:
            return f"the store {address} did not answer within {STORE_TIME:g} s"
        except StoreError as error:
            return f"the store {address} does not answer: {redact(str(error), 300)}".replace("\n", " ")
        return None


def _metrics() -> tuple[Callable[[], bytes] | None, Callable[[], None]]:
    """What writes the metrics, and what stops collecting them; None if prometheus-client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest

        from redrive.integrations.prometheus import export
    except ImportError:
        return None, lambda: None
    registry = CollectorRegistry()
    return lambda: generate_latest(registry), export(registry)


def _written(answer: Answer, with_body: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + (answer.body if with_body else b"")
