"""A TCP server that does with each connection what a test asks for: answer, stall, hang up or reset."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

Answer = Callable[[socket.socket], None]
"""Talks to one client; when it returns, the connection is closed."""

PATIENCE = 10.0
TLS_HANDSHAKE = b"\x16"


class FaultyServer:
    """Listens on a loopback port; `close` ends all of its connections."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._talks: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(PATIENCE)
                self._connections.append(connection)
                self._talks.append(threading.Thread(target=self._talk, args=(connection,)))
                self._talks[-1].start()

    def _talk(self, connection: socket.socket) -> None:
        # Its errors are the client leaving, or the end of the test.
        with connection, contextlib.suppress(OSError):
            self._answer(connection)

    def close(self) -> None:
        # shutdown, not close alone: it wakes the threads that wait in accept() and recv().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for talk in self._talks:
            talk.join()


def reset(connection: socket.socket) -> None:
    """With linger 0, closing resets the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stall(connection: socket.socket) -> None:
    """Take everything and never answer."""
    while connection.recv(65_536):
        pass


def hang_up(connection: socket.socket) -> None:
    """Say that nothing more will come. What the client sends is still read, or closing would be a reset."""
    connection.shutdown(socket.SHUT_WR)
    stall(connection)


def garble(connection: socket.socket) -> None:
    """Send something that is valid in no protocol, and hang up."""
    connection.sendall(b"\x00\x00\x00\x09\x07garbage\r\n\r\n")
    hang_up(connection)


def send(content: bytes) -> Answer:
    """Wait for the head of a request or for a TLS handshake, send the content and hang up; nothing to send resets."""

    def talk(connection: socket.socket) -> None:
        received = connection.recv(65_536)
        while received and b"\r\n\r\n" not in received and not received.startswith(TLS_HANDSHAKE):
            received += connection.recv(65_536)
        if content:
            connection.sendall(content)
        else:
            reset(connection)

    return talk


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections: it is taken, but nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def full_queue() -> Iterator[int]:
    """A port whose queue of connections is full: further ones are neither accepted nor refused."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]
