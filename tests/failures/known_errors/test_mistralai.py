"""Errors of the Mistral client."""

from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status


def ask(url: str, timeout: float = PATIENCE) -> Any:
    library = imported("mistralai.client")
    # Nothing is encrypted here, and to load the certificates takes longer than all else.
    http = imported("httpx2")
    with (
        http.Client(verify=False, trust_env=False) as sync,
        library.Mistral(
            api_key="none",
            server_url=url,
            timeout_ms=int(timeout * 1000),
            client=sync,
            async_client=http.AsyncClient(verify=False, trust_env=False),
        ) as mistral,
    ):
        return mistral.models.list()


MISTRALAI = Library(name="mistralai", call=ask, raises=("mistralai", "httpx", "httpx2"))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(MISTRALAI, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(MISTRALAI, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(MISTRALAI)


@pytest.mark.promise("L2")
def test_built_by_hand() -> None:
    """Made by hand: no server can make the client raise them in a plain call."""
    errors, extra = imported("mistralai.client.errors"), imported("mistralai.extra.exceptions")
    assert classified(errors.NoResponseError()).category == "transient"
    assert classified(extra.StreamDisconnectedError(reason="read_error", error="x")).category == "transient"


@pytest.mark.promise("L3")
def test_an_answer_that_does_not_fit_is_permanent() -> None:
    with FlakyServer(then=Reply(body={"data": 5})) as server:
        failure = classified(raised_by(ask, server.url))
    assert failure.category == "permanent"
    assert failure.reason.startswith("validation: ")
