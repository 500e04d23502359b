"""Errors of requests and urllib3."""

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer

from .table import check_network_failure, check_row, check_status


def get_with_requests(url: str, timeout: float = PATIENCE) -> None:
    requests = imported("requests")
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=timeout).raise_for_status()


REQUESTS = Library(name="requests", call=get_with_requests, raises=("requests",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(REQUESTS, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(REQUESTS, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(REQUESTS)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("status", [429, 503])
def test_a_client_whose_own_retries_failed_each_time(status: int) -> None:
    def get(url: str) -> None:
        requests, urllib3 = imported("requests"), imported("urllib3")
        with requests.Session() as session:
            retries = urllib3.Retry(total=1, status_forcelist=[status], backoff_factor=0)
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
            session.get(url, timeout=PATIENCE)

    with FlakyServer(then=status) as server:
        failure = classified(raised_by(get, server.url))
    assert failure.type == "requests.exceptions.RetryError"
    assert (failure.category, failure.status) == ("transient", status)
