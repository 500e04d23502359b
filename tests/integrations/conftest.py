"""Every test that asks for a `client` runs with each of them."""

from collections.abc import Iterator

import pytest
from tests.misbehaving.sockets import refusing_port

from redrive.calls import shared_dependencies
from redrive.resilience.dependencies import Dependencies
from redrive.testing import NoWaits, no_waits

from .clients import CLIENTS, Client


@pytest.fixture(params=CLIENTS, ids=repr)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture(autouse=True)
def clock() -> Iterator[NoWaits]:
    """Real time, for real sockets; only the waits between attempts take none."""
    with no_waits() as clock:
        yield clock


@pytest.fixture(autouse=True)
def _own_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are used again, so a test must not find the circuits of another one's servers."""
    monkeypatch.setattr(shared_dependencies, "DEPENDENCIES", Dependencies())


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections."""
    with refusing_port() as port:
        yield port
