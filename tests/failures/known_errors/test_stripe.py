"""Errors of the Stripe client."""

from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status


def list_customers(url: str, timeout: float = PATIENCE) -> Any:
    stripe = imported("stripe")
    http = stripe.RequestsClient(timeout=timeout)
    addresses = {"api": url}
    client = stripe.StripeClient("sk_none", base_addresses=addresses, max_network_retries=0, http_client=http)
    return client.v1.customers.list()


STRIPE = Library(name="stripe", call=list_customers, raises=("stripe",))


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(STRIPE, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(STRIPE, how, conflicts_pass=True)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(STRIPE)


@pytest.mark.promise("L3")
@pytest.mark.parametrize(
    ("status", "said", "category"),
    [(500, "false", "permanent"), (409, "false", "permanent"), (400, "true", "transient"), (402, "", "permanent")],
)
def test_the_advice_of_the_server(status: int, said: str, category: str) -> None:
    body = {"error": {"type": "card_error", "code": "card_declined", "message": "x"}}
    with FlakyServer(then=Reply(status=status, body=body, headers={"Stripe-Should-Retry": said})) as server:
        assert classified(raised_by(list_customers, server.url)).category == category


@pytest.mark.promise("L3")
def test_built_by_hand() -> None:
    """Made by hand: it is raised by a check of the user's own server."""
    error = imported("stripe").SignatureVerificationError("x", "header")
    assert classified(error).category == "permanent"
