"""Errors of websockets."""

import threading

import pytest
from tests.misbehaving.failures import NETWORK_FAILURES, PATIENCE, STATUSES
from tests.misbehaving.library import Library, classified, imported, raised_by

from .table import check_network_failure, check_row, check_status


def converse(url: str, timeout: float = PATIENCE) -> None:
    websockets = imported("websockets.sync.client")
    with websockets.connect(url.replace("http:", "ws:"), open_timeout=timeout, proxy=None) as connection:
        connection.recv(timeout=timeout)


WEBSOCKETS = Library(
    name="websockets",
    call=converse,
    raises=("websockets", "builtins", "socket"),
    # It raises the same TimeoutError whether it was connecting or waiting for an answer.
    unsure=("connect timeout",),
)


@pytest.mark.promise("L2")
@pytest.mark.parametrize("how", NETWORK_FAILURES)
def test_network_failures_are_transient(how: str) -> None:
    check_network_failure(WEBSOCKETS, how)


@pytest.mark.promise("L3")
@pytest.mark.parametrize("how", STATUSES)
def test_responses_go_by_their_status(how: str) -> None:
    check_status(WEBSOCKETS, how)


@pytest.mark.promise("L2")
def test_the_table_shows_it() -> None:
    check_row(WEBSOCKETS)


@pytest.mark.promise("L3")
@pytest.mark.parametrize(
    ("code", "category"),
    [
        (1001, "unknown"),
        (1011, "transient"),
        (1012, "transient"),
        (1013, "transient"),
        (1003, "permanent"),
        (1008, "permanent"),
        (1009, "permanent"),
        (4000, "transient"),
    ],
)
def test_a_close_code_says_why(code: int, category: str) -> None:
    server = imported("websockets.sync.server")
    with server.serve(lambda connection: connection.close(code, "so"), "127.0.0.1", 0) as listening:
        threading.Thread(target=listening.serve_forever).start()
        port = listening.socket.getsockname()[1]
        assert classified(raised_by(converse, f"http://127.0.0.1:{port}")).category == category
        listening.shutdown()


@pytest.mark.promise("L2")
def test_a_connection_that_breaks_is_transient() -> None:
    server = imported("websockets.sync.server")
    with server.serve(lambda connection: connection.socket.shutdown(2), "127.0.0.1", 0) as listening:
        threading.Thread(target=listening.serve_forever).start()
        failure = classified(raised_by(converse, f"http://127.0.0.1:{listening.socket.getsockname()[1]}"))
        listening.shutdown()
    assert failure.type == "websockets.exceptions.ConnectionClosedError"
    assert (failure.category, failure.not_sent) == ("transient", False)
