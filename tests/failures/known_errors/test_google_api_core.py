"""Errors of google-api-core, over gRPC and over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, NOT_SENT, PATIENCE, STATUSES, Played, misbehaving
from tests.misbehaving.grpc_servers import abort_with, grpc_server, misbehaving_grpc, place_order
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.testing import FlakyServer, Reply

from .table import check_network_failure, check_row, check_status


@contextmanager
def misbehaving_google(how: str | Played) -> Iterator[str]:
    with misbehaving_grpc(how) if isinstance(how, str) and how not in STATUSES else misbehaving(how) as address:
        yield address


def call_google(address: str, timeout: float = PATIENCE) -> None:
    if not address.startswith("http"):
        imported("google.api_core.grpc_helpers").wrap_errors(place_order)(address, timeout)
        return
    response = imported("requests").get(address, timeout=timeout)
    raise imported("google.api_core.exceptions").from_http_response(response)


GOOGLE_API_CORE = Library(
    name="google-api-core",
    call=call_google,
    raises=("google",),
    server=misbehaving_google,
    without=("cut off",),
    unsure=tuple(NOT_SENT),
)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", [how for how in NETWORK_FAILURES if how != "cut off"])
def test_network_failures_are_transient(how: str) -> None:
    # Over gRPC they get a status: a 503 that no server has sent.
    check_network_failure(GOOGLE_API_CORE, how, has_status=True)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(GOOGLE_API_CORE, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(GOOGLE_API_CORE)


@pytest.mark.promise("L3")
class TestVendorsOwnWords:
    def test_retry_info_in_json(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
        body = {"error": {"code": 429, "message": "quota", "details": [{"@type": "x"}, info]}}
        with FlakyServer(then=Reply(status=429, body=body)) as server:
            failure = classified(raised_by(call_google, server.url))
        assert (failure.category, failure.retry_after) == ("transient", 34.5)

    def test_retry_info_over_grpc(self) -> None:
        details, duration = imported("google.rpc.error_details_pb2"), imported("google.protobuf.duration_pb2")
        status = imported("google.rpc.status_pb2").Status(code=8, message="quota")
        delay = duration.Duration(seconds=34, nanos=500_000_000)
        status.details.add().Pack(details.RetryInfo(retry_delay=delay))

        def handler(request: bytes, context: Any) -> bytes:
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(imported("grpc").StatusCode.RESOURCE_EXHAUSTED, "quota")
            return b""

        with grpc_server(handler) as port:
            failure = classified(raised_by(call_google, f"127.0.0.1:{port}"))
        assert failure.type == "google.api_core.exceptions.ResourceExhausted"
        assert (failure.category, failure.retry_after) == ("transient", 34.5)

    @pytest.mark.parametrize(("code", "category"), [("ABORTED", "transient"), ("ALREADY_EXISTS", "permanent")])
    def test_a_409_that_was_aborted_may_be_run_again(self, code: str, category: str) -> None:
        with grpc_server(abort_with(code)) as port:
            failure = classified(raised_by(call_google, f"127.0.0.1:{port}"))
        assert (failure.category, failure.status) == (category, 409)

    def test_a_pushback_of_the_server(self) -> None:
        with grpc_server(abort_with("UNAVAILABLE", grpc_retry_pushback_ms="-1")) as port:
            assert classified(raised_by(call_google, f"127.0.0.1:{port}")).category == "permanent"


@pytest.mark.promise("L2")
class TestBuiltByHand:
    """Made by hand, because they take minutes or real credentials to happen."""

    def test_the_clients_own_retries_ran_out(self) -> None:
        exceptions = imported("google.api_core.exceptions")
        assert classified(exceptions.RetryError("x", exceptions.ServiceUnavailable("y"))).category == "transient"
        assert classified(exceptions.RetryError("x", exceptions.NotFound("y"))).category == "permanent"

    def test_credentials(self) -> None:
        auth = imported("google.auth.exceptions")
        assert classified(auth.RefreshError("invalid_grant")).category == "permanent"
        assert classified(auth.RefreshError("busy", retryable=True)).category == "transient"
        assert classified(auth.DefaultCredentialsError("none")).category == "permanent"
        error = auth.TransportError("x")
        error.__cause__ = imported("requests").ConnectionError("refused")
        assert classified(error).category == "transient"
