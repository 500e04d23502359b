"""Every client library, against a server that is away, resets, hangs up, stalls or talks garbage."""

import pytest
from tests.failures.asking import error_of, verdict_of
from tests.misbehaving.sockets import Answer, garble, hang_up, reset, stall

from .clients import CLIENTS
from .conftest import ServeFault

pytestmark = [pytest.mark.usefixtures("leaks"), pytest.mark.filterwarnings("ignore::ResourceWarning")]

# libpq waits at least two seconds; psycopg stalls for all who use it.
IN_TIME = [client for client in CLIENTS if client not in ("psycopg2", "sqlalchemy")]


@pytest.mark.promise("L2")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_is_away(client: str, closed_port: int) -> None:
    verdict = verdict_of(error_of(lambda: CLIENTS[client](closed_port)))
    assert verdict.category == "transient", verdict
    # A resolver asks several servers, and reports only that none answered.
    assert verdict.not_sent or client == "dns_resolver"


@pytest.mark.promise("L2")
@pytest.mark.parametrize("fault", [reset, hang_up, garble], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_breaks_off(client: str, fault: Answer, serve: ServeFault) -> None:
    port = serve(fault)
    verdict = verdict_of(error_of(lambda: CLIENTS[client](port)))
    assert verdict.category == "transient", verdict


@pytest.mark.promise("L2")
@pytest.mark.parametrize("client", IN_TIME)
def test_a_server_that_never_answers(client: str, serve: ServeFault) -> None:
    port = serve(stall)
    verdict = verdict_of(error_of(lambda: CLIENTS[client](port)))
    assert verdict.category == "transient", verdict
