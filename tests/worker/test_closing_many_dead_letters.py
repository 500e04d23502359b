"""Many dead letters at once: one that cannot be put back to work does not hide what became of the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from redrive.client.bulk_close import CLOSED_AT_ONCE, close_in_parts
from redrive.errors import InvalidStateError


async def redrive(flow_ids: Sequence[str], by: str, why: str) -> list[str]:
    possible = [one for one in flow_ids if one != "undone"]
    if not possible:
        raise InvalidStateError("flow undone was compensated")
    return possible


def settled(*flow_ids: str) -> list[str]:
    return asyncio.run(close_in_parts(redrive, flow_ids, audited, by="anna", why="the bank is back"))


@asynccontextmanager
async def audited(flow_ids: Sequence[str]) -> AsyncIterator[None]:
    assert 1 <= len(flow_ids) <= CLOSED_AT_ONCE
    yield


def test_those_before_and_behind_a_part_that_cannot_be_redriven_are() -> None:
    first, last = [f"a{one}" for one in range(CLOSED_AT_ONCE)], ["b"]
    assert settled(*first, *["undone"] * CLOSED_AT_ONCE, *last) == [*first, *last]


def test_where_none_can_be_redriven_that_is_said() -> None:
    with pytest.raises(InvalidStateError, match="compensated"):
        settled("undone")
    assert settled() == []
