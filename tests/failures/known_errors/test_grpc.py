"""Errors of gRPC."""

import asyncio

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, NOT_SENT, PATIENCE, STATUSES
from tests.misbehaving.grpc_servers import METHOD, abort_with, grpc_server, misbehaving_grpc, place_order
from tests.misbehaving.library import Library, classified, imported, raised_by

from redrive.failures.failure import Failure

from .table import check_network_failure, check_row

GRPC = Library(
    name="grpc",
    call=place_order,
    raises=("grpc",),
    server=misbehaving_grpc,
    # gRPC has codes of its own, and a response that ends early is a stream that was removed.
    without=("cut off", *STATUSES),
    unsure=tuple(NOT_SENT),
)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", [how for how in NETWORK_FAILURES if how != "cut off"])
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(GRPC, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(GRPC)


def answered(code: str, details: str = "no", **trailers: str) -> Failure:
    """What becomes of an answer with this code and these trailers."""
    with grpc_server(abort_with(code, details, **trailers)) as port:
        return classified(raised_by(place_order, f"127.0.0.1:{port}"))


@pytest.mark.promise("L3")
@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("UNAVAILABLE", "transient"),
        ("DEADLINE_EXCEEDED", "transient"),
        ("RESOURCE_EXHAUSTED", "transient"),
        ("ABORTED", "transient"),
        ("INVALID_ARGUMENT", "permanent"),
        ("UNAUTHENTICATED", "permanent"),
        ("PERMISSION_DENIED", "permanent"),
        ("NOT_FOUND", "permanent"),
        ("FAILED_PRECONDITION", "permanent"),
        ("UNIMPLEMENTED", "permanent"),
        ("INTERNAL", "unknown"),
    ],
)
def test_answers_go_by_their_code(code: str, category: str) -> None:
    failure = answered(code)
    assert (failure.category, failure.retry_after) == (category, None)
    assert code in failure.reason


@pytest.mark.promise("L3")
class TestPushback:
    @pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "NOT_FOUND"])
    def test_a_wait_is_obeyed(self, code: str) -> None:
        failure = answered(code, grpc_retry_pushback_ms="40")
        assert (failure.category, failure.retry_after) == ("transient", 0.04)

    @pytest.mark.parametrize("said", ["-1", "soon", "1.5"])
    def test_anything_else_means_not_to_retry(self, said: str) -> None:
        failure = answered("UNAVAILABLE", grpc_retry_pushback_ms=said)
        assert failure.category == "permanent"
        assert "the server says not to retry" in failure.reason


@pytest.mark.promise("P10")
def test_what_a_server_passes_on_may_have_taken_effect() -> None:
    """It has the words of a connection that this client could not make, but this server has had the request."""
    failure = answered("UNAVAILABLE", "failed to connect to all addresses; last error: Connection refused")
    assert (failure.category, failure.not_sent) == ("transient", False)


@pytest.mark.promise("L2")
def test_a_stream_that_broke_under_another_code() -> None:
    assert answered("INTERNAL", "Received RST_STREAM with error code 2").category == "transient"


@pytest.mark.promise("L2", "L3")
def test_the_errors_of_asyncio_are_the_same() -> None:
    async def place(target: str) -> None:
        async with imported("grpc.aio").insecure_channel(target) as channel:
            await channel.unary_unary(METHOD)(b"", timeout=PATIENCE)

    with grpc_server(abort_with("UNAVAILABLE", grpc_retry_pushback_ms="40")) as port:
        failure = classified(raised_by(lambda target: asyncio.run(place(target)), f"127.0.0.1:{port}"))
    assert failure.type == "grpc.aio._call.AioRpcError"
    assert (failure.category, failure.retry_after) == ("transient", 0.04)
