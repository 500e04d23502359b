"""The server that fails as told keeps to HTTP where it is not told otherwise."""

import http.client

import pytest

from redrive.testing import FlakyServer, Reply


def asked_twice(server: FlakyServer) -> list[tuple[int, bytes]]:
    """Over one connection."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    answers = []
    try:
        for _ in range(2):
            connection.request("GET", "/")
            response = connection.getresponse()
            answers.append((response.status, response.read()))
    finally:
        connection.close()
    return answers


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_that_has_no_body_leaves_the_connection_to_the_next(status: int, chunked: bool) -> None:
    with FlakyServer(Reply(status=status, body="unsent", chunked=chunked)) as server:
        assert asked_twice(server) == [(status, b""), (200, b"{}")]
        assert len(server.seen) == 2


def test_a_function_may_answer_with_a_plain_status() -> None:
    with FlakyServer(lambda request: 503, then=lambda request: Reply(status=201)) as server:
        assert asked_twice(server) == [(503, b"{}"), (201, b"{}")]
