"""Errors of azure-core."""

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status


def get_with_azure(url: str, timeout: float = PATIENCE) -> None:
    azure, rest = imported("azure.core"), imported("azure.core.rest")
    policies = imported("azure.core.pipeline.policies")
    with azure.PipelineClient(url, policies=[policies.HeadersPolicy()]) as client:
        request = rest.HttpRequest("GET", f"{url}/")
        client.send_request(request, connection_timeout=timeout, read_timeout=timeout).raise_for_status()


AZURE_CORE = Library(name="azure-core", call=get_with_azure, raises=("azure",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(AZURE_CORE, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(AZURE_CORE, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(AZURE_CORE)


@pytest.mark.promise("L3")
def test_the_milliseconds_of_azure() -> None:
    headers = {"x-ms-retry-after-ms": "40", "Retry-After": "7"}
    with FlakyServer(then=Reply(status=429, headers=headers)) as server:
        assert classified(raised_by(get_with_azure, server.url)).retry_after == 0.04


@pytest.mark.promise("L2")
def test_built_by_hand() -> None:
    """Made by hand: they come from the streams and credentials of other Azure packages."""
    exceptions = imported("azure.core.exceptions")
    assert classified(exceptions.IncompleteReadError("x")).category == "transient"
    assert classified(exceptions.ServiceRequestError("x")).category == "transient"
    assert not classified(exceptions.ServiceRequestError("x")).not_sent
    assert classified(exceptions.ClientAuthenticationError("x")).category == "permanent"
    unreachable = exceptions.ClientAuthenticationError("x")
    unreachable.__cause__ = exceptions.ServiceRequestError("y")
    assert classified(unreachable).category == "transient"
