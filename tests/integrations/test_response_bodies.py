"""Bodies are read inside the attempt where that is safe, and passed on as streams where it is not."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import trio

import redrive
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.http_client.body_buffering import bytes_to_read
from redrive.integrations.httpx import AsyncRetryTransport, RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply

from .clients import Client

LARGE = bytes(range(256)) * 8 * 1024
"""2 MiB: more than is read ahead."""

# httpx and httpcore leave the generators of a body that is not read to its end to the collector; trio warns of it.
left_to_the_collector = pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)\\.:ResourceWarning")


@pytest.mark.promise("A2")
@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_a_document_that_is_cut_off_is_asked_for_again(client: Client, chunked: bool) -> None:
    whole = Reply(body={"items": ["x" * 1000] * 10}, chunked=chunked)
    cut = Reply(body=whole.body, chunked=chunked, fault="cut_body")
    with FlakyServer(cut, cut, then=whole) as server:
        answer = client.send("GET", server.url)
        assert answer.body.startswith(b'{"items"')
        assert answer.body.endswith(b"]}")
        assert len(server.seen) == 3


@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_a_large_body_arrives_whole(client: Client, chunked: bool) -> None:
    with FlakyServer(503, then=Reply(body=LARGE, chunked=chunked)) as server:
        assert client.send("GET", server.url).body == LARGE


@left_to_the_collector
@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_a_large_body_of_a_failure_arrives_whole(client: Client, chunked: bool) -> None:
    """Each but the last is let go of: a pool of one would block otherwise."""
    with FlakyServer(then=Reply(status=500, body=LARGE, chunked=chunked)) as server:
        answer = client.send("GET", server.url, settings={"pool": 1})
        assert (answer.status, answer.body) == (500, LARGE)
        assert answer.report is not None
        assert len(server.seen) == 3


@pytest.mark.parametrize("limit", [0, 10])
def test_a_small_limit_changes_what_is_retried_but_not_what_arrives(client: Client, limit: int) -> None:
    body = {"text": "x" * 100}
    with FlakyServer(503, then=Reply(body=body)) as server:
        assert client.send("GET", server.url, settings={"buffer_limit": limit}).body.endswith(b'xxx"}')


def test_what_is_read_ahead() -> None:
    def ahead(failed: bool = False, **headers: str) -> int:
        return bytes_to_read({name.replace("_", "-"): value for name, value in headers.items()}, 1000, failed=failed)

    assert ahead(Content_Length="1000") == 1000
    assert ahead(Content_Length="1001") == 0
    assert ahead(Content_Length="1001", failed=True) == 0
    assert ahead(Content_Length="9" * 5000) == 0
    assert ahead(Content_Length="-1") == 0
    assert ahead(Content_Length="²") == 0
    assert ahead(Content_Length="10", Transfer_Encoding="chunked") == 0
    assert ahead(Content_Type="application/json; charset=utf-8") == 1000
    assert ahead(Content_Type="application/problem+json") == 1000
    assert ahead(Content_Type="text/event-stream") == 0
    assert ahead(Content_Type="text/event-stream", failed=True) == 1000
    assert ahead(Content_Type="application/octet-stream") == 0
    assert ahead() == 0


EVENTS = Reply(
    fault="hang_body", chunked=True, body=b"data: 1\n\ndata: 2\n\n", headers={"Content-Type": "text/event-stream"}
)
"""A stream that sends its first event and then waits."""


def test_an_event_stream_is_not_held_back_by_httpx() -> None:
    with (
        FlakyServer(EVENTS) as server,
        httpx.Client(transport=RetryTransport()) as client,
        client.stream("GET", server.url) as response,
    ):
        assert next(response.iter_lines()) == "data: 1"
        assert redrive.report_of(response) is None


@left_to_the_collector
@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
def test_an_event_stream_is_not_held_back_by_async_httpx(run: Callable[[Callable[[], Any]], None]) -> None:
    async def main() -> None:
        async with (
            httpx.AsyncClient(transport=AsyncRetryTransport()) as client,
            client.stream("GET", server.url) as response,
        ):
            assert await anext(response.aiter_raw()) == b"data: 1\n\n"

    with FlakyServer(EVENTS) as server:
        run(main)


def test_an_event_stream_is_not_held_back_by_requests() -> None:
    with FlakyServer(EVENTS) as server, requests.Session() as session:
        session.mount("http://", RetryAdapter())
        with session.get(server.url, stream=True, timeout=5) as response:
            assert next(response.iter_content(9)) == b"data: 1\n\n"


def test_an_event_stream_is_not_held_back_by_aiohttp() -> None:
    async def main() -> None:
        async with (
            aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session,
            session.get(server.url) as response,
        ):
            assert await response.content.readany() == b"data: 1\n\n"

    with FlakyServer(EVENTS) as server:
        asyncio.run(main())


def test_a_response_that_was_read_ahead_can_still_be_streamed_with_httpx() -> None:
    with FlakyServer(then=Reply(body={"a": 1})) as server, httpx.Client(transport=RetryTransport()) as client:
        with client.stream("GET", server.url) as response:
            assert b"".join(response.iter_raw()) == b'{"a": 1}'
        with client.stream("GET", server.url) as response:
            response.read()
            assert response.json() == {"a": 1}


def test_a_single_httpx_request_may_say_that_it_is_a_stream() -> None:
    waits = Reply(fault="hang_body", chunked=True, body=b'{"a": 1}{"b": 2}')
    with (
        FlakyServer(waits) as server,
        httpx.Client(transport=RetryTransport()) as client,
        client.stream("GET", server.url, extensions={"redrive": {"buffer_limit": 0}}) as response,
    ):
        assert next(response.iter_raw()) == b'{"a": 1}'


@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
@pytest.mark.parametrize("size", [0, 1, 100, len(LARGE)])
def test_a_response_that_was_read_ahead_can_still_be_streamed_with_aiohttp(chunked: bool, size: int) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session:
            async with session.get(server.url) as response:
                assert b"".join([piece async for piece in response.content.iter_chunked(1000)]) == LARGE[:size]
                assert response.content.at_eof()
            async with session.get(server.url) as response:
                assert await response.content.read(1) == LARGE[: min(1, size)]
                assert await response.content.read() == LARGE[1:size]
            async with session.get(server.url) as response:
                assert await response.read() == LARGE[:size]
            async with session.get(server.url):
                pass

    with FlakyServer(then=Reply(body=LARGE[:size], chunked=chunked)) as server:
        asyncio.run(main())
