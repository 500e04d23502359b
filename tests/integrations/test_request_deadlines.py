"""Time limits hold through the clients, whatever timeouts the request has itself."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

import redrive
from redrive.determinism.clock import SYSTEM_CLOCK, use_clock
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.httpx import RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Fault

from .clients import Client

HANGS: list[Fault] = ["hang", "hang_body"]


@pytest.mark.promise("P6")
@pytest.mark.parametrize("fault", HANGS)
def test_an_attempt_is_cut_at_the_deadline(client: Client, fault: Fault) -> None:
    reply = Reply(fault=fault, body={"long": "enough"})
    with FlakyServer(then=reply) as server, pytest.raises(redrive.DeadlineExceededError) as caught:
        client.send("GET", server.url, read_timeout=60, settings={"deadline": 0.3})
    assert isinstance(caught.value, client.timeout_error)
    assert isinstance(caught.value, client.any_error)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "deadline"
    assert report.made == 1
    assert 0.25 < report.elapsed < 5


@pytest.mark.promise("P6")
@pytest.mark.parametrize("fault", HANGS)
def test_an_attempt_is_cut_by_its_own_timeout_and_retried(client: Client, fault: Fault) -> None:
    with FlakyServer(Reply(fault=fault, body={"long": "enough"}), then=200) as server:
        settings = {"attempt_timeout": 0.4}
        assert client.send("GET", server.url, read_timeout=60, settings=settings).status == 200
        assert len(server.seen) == 2


@pytest.mark.promise("P6")
def test_attempts_that_all_time_out_end_in_a_timeout_of_the_client(client: Client) -> None:
    with FlakyServer(then=Reply(fault="hang")) as server, pytest.raises(redrive.AttemptTimeoutError) as caught:
        client.send("GET", server.url, read_timeout=60, settings={"attempt_timeout": 0.1})
    assert isinstance(caught.value, client.timeout_error)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert [record.failure.kind for record in report.attempts] == ["timeout"] * 3


@pytest.mark.promise("P6", "P16")
def test_the_deadline_of_an_outer_call_holds_for_its_requests(client: Client) -> None:
    @redrive.retry(deadline=0.3)
    def outer() -> None:
        client.send("GET", server.url, read_timeout=60)

    with FlakyServer(then=Reply(fault="hang")) as server:
        began = time.monotonic()
        with pytest.raises(redrive.DeadlineExceededError):
            outer()
        assert time.monotonic() - began < 5
        assert len(server.seen) <= 1


@pytest.mark.promise("P6")
def test_the_requests_own_timeout_still_holds(client: Client) -> None:
    with FlakyServer(then=Reply(fault="hang")) as server, pytest.raises(client.timeout_error) as caught:
        client.send("GET", server.url, read_timeout=0.1, settings={"attempts": 1})
    assert not isinstance(caught.value, redrive.DeadlineExceededError | redrive.AttemptTimeoutError)


@pytest.mark.promise("P6")
def test_no_retry_begins_that_would_come_too_late(client: Client) -> None:
    with FlakyServer(then=Reply(status=503, headers={"Retry-After": "10"})) as server:
        answer = client.send("GET", server.url, settings={"deadline": 5})
        assert answer.status == 503
        assert answer.report is not None
        assert answer.report.gave_up.kind == "deadline"


class Dribble(httpx.SyncByteStream):
    """A body that never stalls, and never ends."""

    closed = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b"x"

    def close(self) -> None:
        self.closed = True


@pytest.mark.promise("P6")
def test_a_body_that_comes_in_drops_is_cut_at_the_deadline() -> None:
    body = Dribble()
    inner = httpx.MockTransport(lambda request: httpx.Response(200, headers={"Content-Length": "1000"}, stream=body))
    transport = RetryTransport(transport=inner, deadline=0.2)
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.TimeoutException, match="deadline"):
        client.get("http://example.invalid/")
    assert body.closed


@pytest.mark.parametrize(
    "timeout", [None, 60, (60, 60), (None, None), urllib3.Timeout(60), urllib3.Timeout(total=60)], ids=repr
)
def test_every_form_of_timeout_that_requests_takes_is_shortened(timeout: Any) -> None:
    with FlakyServer(then=Reply(fault="hang")) as server, requests.Session() as session:
        session.mount("http://", RetryAdapter(deadline=0.2))
        with pytest.raises(redrive.DeadlineExceededError) as caught:
            session.get(server.url, timeout=timeout)
    assert isinstance(caught.value, requests.Timeout)
    assert caught.value.request is not None
    assert caught.value.response is None


@pytest.mark.parametrize("fault", HANGS)
def test_the_total_timeout_of_an_aiohttp_session_ends_all_attempts(fault: Fault) -> None:
    async def main() -> None:
        timeout = aiohttp.ClientTimeout(total=0.3)
        async with aiohttp.ClientSession(middlewares=(retry_middleware(),), timeout=timeout) as session:
            with pytest.raises(TimeoutError) as caught:
                await session.get(server.url)
        report = redrive.report_of(caught.value)
        assert report is not None
        assert "ClientTimeout(total=" in report.next_step

    with FlakyServer(then=Reply(fault=fault, body={"long": "enough"})) as server:
        asyncio.run(main())
        assert len(server.seen) == 1


def test_the_total_timeout_of_an_aiohttp_session_ends_a_wait() -> None:
    async def main() -> None:
        middleware = retry_middleware(backoff=30, jitter="none")
        timeout = aiohttp.ClientTimeout(total=0.2)
        async with aiohttp.ClientSession(middlewares=(middleware,), timeout=timeout) as session:
            with pytest.raises(TimeoutError):
                await session.get(server.url)

    with FlakyServer(then=503) as server, use_clock(SYSTEM_CLOCK):
        asyncio.run(main())
        assert len(server.seen) == 1
