"""The guard of a connection leaves nothing behind that only the garbage collector can free."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from redrive.server.transport.guard import ConnectionGuard

LATE = 1e12


class Transport(asyncio.Transport):
    """A transport that counts how often it was aborted."""

    aborted = 0

    def abort(self) -> None:
        self.aborted += 1

    def get_write_buffer_size(self) -> int:
        return 0


class Owner:
    """Refers to its guard, as a protocol does."""

    def __init__(self, transport: Transport) -> None:
        self.guard = ConnectionGuard("peer", transport, write_timeout=30.0)
        self.refused = 0

    def refuse(self) -> None:
        self.refused += 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("deadline", ["none", "kept", "passed", "passed without a refusal"])
def test_a_connection_that_has_ended_is_freed_at_once(deadline: str) -> None:
    transport = Transport()
    owner = Owner(transport)
    if deadline != "none":
        owner.guard.expect(10.0, None if deadline == "passed without a refusal" else owner.refuse)
    if deadline == "kept":
        owner.guard.nothing_expected()
    else:
        owner.guard.check(LATE)
    assert owner.refused == (deadline == "passed")
    assert transport.aborted == (deadline == "passed without a refusal")
    left: list[weakref.ref[Any]] = [weakref.ref(owner), weakref.ref(owner.guard)]
    del owner
    assert [one() for one in left] == [None, None]
