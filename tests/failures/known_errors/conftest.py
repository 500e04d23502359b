"""Servers that fail as they are told to."""

import gc
import warnings
from collections.abc import Callable, Iterator

import pytest
from tests.misbehaving.sockets import Answer, FaultyServer

ServeFault = Callable[[Answer], int]


@pytest.fixture
def serve() -> Iterator[ServeFault]:
    """Start a server that talks to each client in the given way; returns its port."""
    servers: list[FaultyServer] = []

    def start(answer: Answer) -> int:
        servers.append(FaultyServer(answer))
        return servers[-1].port

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def leaks() -> Iterator[None]:
    """For clients that leave sockets behind when they fail: what is left is collected here, not in a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
