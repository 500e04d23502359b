"""Errors of urllib3."""

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, imported

from .table import check_network_failure, check_row


def get_with_urllib3(url: str, timeout: float = PATIENCE) -> None:
    urllib3 = imported("urllib3")
    with urllib3.PoolManager(timeout=timeout, retries=False) as pool:
        pool.request("GET", url)


URLLIB3 = Library(name="urllib3", call=get_with_urllib3, raises=("urllib3",), without=STATUSES)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(URLLIB3, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(URLLIB3)
