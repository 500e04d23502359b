"""Errors of the Cohere client."""

from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, imported

from .table import check_network_failure, check_row, check_status


def ask(url: str, timeout: float = PATIENCE) -> Any:
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    with imported("httpx").Client(verify=False, trust_env=False, timeout=timeout) as http:
        cohere = imported("cohere").ClientV2(api_key="none", base_url=url, timeout=timeout, httpx_client=http)
        return cohere.models.list(request_options={"max_retries": 0})


COHERE = Library(name="cohere", call=ask, raises=("cohere", "httpx", "httpx2"))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(COHERE, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(COHERE, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(COHERE)
