"""An enclosing call does not repeat what a call inside it may have done already."""

import asyncio
from collections.abc import Callable

import aiohttp
import httpx
import pytest
import requests

import redrive
from redrive.calls.adapters.aiohttp import retry_middleware
from redrive.calls.adapters.httpx import RetryTransport
from redrive.calls.adapters.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply, no_waits, virtual_clock

pytestmark = pytest.mark.promise("P10", "P16")


def with_httpx(url: str, method: str, headers: dict[str, str]) -> None:
    with httpx.Client(transport=RetryTransport()) as client:
        client.request(method, url, headers=headers).raise_for_status()


def with_requests(url: str, method: str, headers: dict[str, str]) -> None:
    with requests.Session() as session:
        session.mount("http://", RetryAdapter())
        session.request(method, url, headers=headers, timeout=30).raise_for_status()


def with_aiohttp(url: str, method: str, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with (
            aiohttp.ClientSession(middlewares=(retry_middleware(),), raise_for_status=False) as session,
            session.request(method, url, headers=headers) as response,
        ):
            await response.read()
            if response.status >= 400:
                raise ServerRefused(response)

    asyncio.run(main())


class ServerRefused(ConnectionError):
    """What an application makes of a bad answer."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__(response.status)
        self.response = response


every_client = pytest.mark.parametrize("send", [with_httpx, with_requests, with_aiohttp])
Send = Callable[[str, str, dict[str, str]], None]


@every_client
@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [("POST", {}, 1), ("POST", {"Idempotency-Key": "k1"}, 3), ("GET", {}, 3)],
    ids=["post", "post with a key", "get"],
)
@pytest.mark.parametrize("reply", [Reply(status=503), Reply(fault="close")], ids=["503", "lost"])
def test_a_request_inside_a_guarded_call(
    send: Send, method: str, headers: dict[str, str], expected: int, reply: Reply
) -> None:
    @redrive.retry(on=redrive.ANYTHING)
    def place_order(url: str) -> None:
        send(url, method, headers)

    with FlakyServer(then=reply) as server, no_waits(), pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
        place_order(server.url)
    assert len(server.seen) == expected
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == ("not_idempotent" if expected == 1 else "exhausted")


@every_client
def test_a_request_that_was_never_sent_is_repeated(send: Send) -> None:
    with FlakyServer() as server:
        gone = server.url
    calls = []

    @redrive.retry(on=redrive.ANYTHING)
    def place_order() -> None:
        calls.append(1)
        send(gone, "POST", {})

    with no_waits(), pytest.raises(Exception):  # noqa: PT011, B017 - each library has its own
        place_order()
    assert len(calls) == 3


def test_what_an_inner_call_never_retries_is_not_retried_outside_either() -> None:
    calls = []

    @redrive.retry(never=ConnectionResetError)
    def inner() -> None:
        calls.append(1)
        raise ConnectionResetError

    with virtual_clock(), pytest.raises(ConnectionResetError) as caught:
        redrive.retry(lambda: inner())()
    assert len(calls) == 1
    report = redrive.report_of(caught.value)
    assert report is not None
    assert report.gave_up.kind == "permanent"


def test_asking_for_a_retry_says_that_it_is_safe() -> None:
    calls = []

    @redrive.retry(idempotent=False)
    def refused() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise redrive.RetryAfter(1, "not begun")
        return "done"

    with virtual_clock():
        assert refused() == "done"


def test_a_function_declared_not_idempotent_and_errors_raised_from_its_own() -> None:
    calls = []

    class OrderFailed(Exception):
        pass

    @redrive.retry(idempotent=False)
    def charge() -> None:
        calls.append(1)
        raise TimeoutError("no answer")

    def order() -> None:
        try:
            charge()
        except TimeoutError as error:
            raise OrderFailed from error

    with virtual_clock():
        with pytest.raises(OrderFailed):
            redrive.retry(on=OrderFailed)(order)()
        assert len(calls) == 1
        # Who knows better says so.
        with pytest.raises(OrderFailed):
            redrive.retry(on=OrderFailed, idempotent=True)(order)()
        assert len(calls) == 4
