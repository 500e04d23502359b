"""Servers for the tests of single errors."""

from collections.abc import Callable, Iterator

import pytest
from tests.misbehaving.sockets import FaultyServer, refusing_port, send

ServeBytes = Callable[[bytes], str]


@pytest.fixture
def serve_bytes() -> Iterator[ServeBytes]:
    """Start a server that answers every request with these bytes; empty bytes reset the connection instead."""
    servers: list[FaultyServer] = []

    def start(answer: bytes) -> str:
        servers.append(FaultyServer(send(answer)))
        return f"http://127.0.0.1:{servers[-1].port}"

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port on which nobody listens."""
    with refusing_port() as port:
        yield port
