"""A real server that answers every request with the bytes it was given, and then hangs up."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

ServeBytes = Callable[[bytes], str]

TLS_HANDSHAKE = b"\x16"


class _OneAnswerServer:
    """Listens on a loopback port until it is closed."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                received = connection.recv(65_536)
                while received and b"\r\n\r\n" not in received and not received.startswith(TLS_HANDSHAKE):
                    received += connection.recv(65_536)
                if self._answer:
                    connection.sendall(self._answer)
                else:
                    # No answer at all: with linger 0, closing resets the connection.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        # shutdown, not close alone: it wakes the thread that waits in accept().
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def serve_bytes() -> Iterator[ServeBytes]:
    """Start a server for an answer; empty bytes reset the connection instead."""
    servers: list[_OneAnswerServer] = []

    def start(answer: bytes) -> str:
        servers.append(_OneAnswerServer(answer))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def closed_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
