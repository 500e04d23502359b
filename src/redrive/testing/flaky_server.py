"""A real HTTP server that fails on request, for tests and demos."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

import msgspec

Fault = Literal["reset", "hang", "cut_body", "hang_body", "drip_body", "close", "garbage"]

CHUNK = 64 * 1024
DRIP = 0.02
# These have no body: a client would read one as the start of the next response.
WITHOUT_BODY = (204, 304)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the server does with one request: send a response, or simulate a fault.

    reset: the connection is reset. close: it is closed without a response. hang: no response until the server stops.
    cut_body: the response ends midway through its body. hang_body: it stalls there until the server stops.
    drip_body: it continues there one byte at a time and never ends. garbage: the response is not HTTP.
    """

    status: int = 200
    body: Any = None
    """Bytes are sent as they are, anything else as JSON; None is sent as an empty object."""
    headers: Mapping[str, str] = {}
    fault: Fault | None = None
    chunked: bool = False
    """Send the body in chunks, without a Content-Length."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    """Lower-case name -> value."""
    body: bytes


class FlakyServer:
    """Serves on a loopback port inside a `with` block. `script` lists the replies to the requests, in order.

    After the script, every request gets `then`. A reply is a Reply, a status, or a function that takes the request
    and returns one of these.
    """

    def __init__(
        self,
        *script: Reply | int | Callable[[Seen], Reply | int],
        then: Reply | int | Callable[[Seen], Reply | int] = 200,
    ) -> None:
        self._script = [*script]
        self._then = then
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.seen: list[Seen] = []
        self.open_connections = 0
        """The number of open connections."""

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> "FlakyServer":
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.flaky = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next_reply(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            chosen = self._script.pop(0) if self._script else self._then
        return _as_reply(chosen(seen) if callable(chosen) else chosen)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # More simultaneous connections would be refused, or delayed by a second.
    request_queue_size = 128
    flaky: FlakyServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients that disconnect are expected.
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are written separately; the body would otherwise wait until the client acknowledges the head.
    disable_nagle_algorithm = True
    timeout = 30

    @property
    def flaky(self) -> FlakyServer:
        assert isinstance(self.server, _Server)  # noqa: S101 - narrows for the type checkers
        return self.server.flaky

    def setup(self) -> None:
        super().setup()
        with self.flaky._lock:
            self.flaky.open_connections += 1

    def finish(self) -> None:
        with self.flaky._lock:
            self.flaky.open_connections -= 1
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method it replaces
        return

    def _serve(self) -> None:
        seen = Seen(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._read_body(),
        )
        reply = self.flaky._next_reply(seen)
        if reply.fault is None:
            self._answer(reply)
        elif reply.fault in ("cut_body", "hang_body", "drip_body"):
            self._answer(reply, whole=False)
            if reply.fault == "hang_body":
                self.flaky._stopping.wait()
            while reply.fault == "drip_body" and not self.flaky._stopping.wait(DRIP):
                self.wfile.write(b"1\r\n \r\n" if reply.chunked else b" ")
            self.close_connection = True
        elif reply.fault == "hang":
            self.flaky._stopping.wait()
            self.close_connection = True
        elif reply.fault == "garbage":
            self.wfile.write(b"\x00 this is not HTTP \x00\r\n\r\n")
            self.close_connection = True
        else:
            if reply.fault == "reset":
                # Closing with a linger time of zero sends a reset instead of an orderly shutdown.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            self.close_connection = True
            self.connection.close()

    def _answer(self, reply: Reply, whole: bool = True) -> None:
        body = (
            reply.body
            if isinstance(reply.body, bytes)
            else json.dumps({} if reply.body is None else reply.body).encode()
        )
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        if reply.status in WITHOUT_BODY:
            self.end_headers()
            return
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = body if whole else body[: len(body) // 2]
        if not reply.chunked:
            self.wfile.write(sent)
            return
        for start in range(0, len(sent), CHUNK):
            piece = sent[start : start + CHUNK]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if whole:
            self.wfile.write(b"0\r\n\r\n")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    # The base class calls the method named after the HTTP method.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _serve  # noqa: N815 - see above


def _as_reply(what: Reply | int) -> Reply:
    return Reply(status=what) if isinstance(what, int) else what
