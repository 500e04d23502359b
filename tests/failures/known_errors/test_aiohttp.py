"""Errors of aiohttp."""

import asyncio

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, imported

from .table import check_network_failure, check_row, check_status


def get_with_aiohttp(url: str, timeout: float = PATIENCE) -> None:
    aiohttp = imported("aiohttp")

    async def get() -> None:
        limits = aiohttp.ClientTimeout(sock_connect=timeout, sock_read=timeout)
        async with aiohttp.ClientSession(timeout=limits) as session, session.get(url) as response:
            response.raise_for_status()
            await response.read()

    asyncio.run(get())


AIOHTTP = Library(name="aiohttp", call=get_with_aiohttp, raises=("aiohttp",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(AIOHTTP, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(AIOHTTP, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(AIOHTTP)
