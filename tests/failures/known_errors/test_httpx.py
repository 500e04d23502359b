"""Errors of httpx and httpx2."""

from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, STATUSES
from tests.misbehaving.library import Library, imported

from .table import check_network_failure, check_row, check_status


def get_with(module: str, url: str, timeout: float) -> Any:
    library = imported(module)
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    with library.Client(timeout=timeout, trust_env=False, verify=False) as client:
        return client.get(url).raise_for_status()


HTTPX = Library(name="httpx", call=lambda url, timeout: get_with("httpx", url, timeout), raises=("httpx",))
HTTPX2 = Library(name="httpx2", call=lambda url, timeout: get_with("httpx2", url, timeout), raises=("httpx2",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
@pytest.mark.parametrize("library", [HTTPX, HTTPX2], ids=["httpx", "httpx2"])
def test_network_failures_are_transient(library: Library, how: str) -> None:
    check_network_failure(library, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
@pytest.mark.parametrize("library", [HTTPX, HTTPX2], ids=["httpx", "httpx2"])
def test_responses_go_by_their_status(library: Library, how: str) -> None:
    check_status(library, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(HTTPX)
    check_row(HTTPX2)
