"""An enclosing call does not repeat what a call inside it may have done already."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests

import redrive
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.httpx import RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply, no_waits, virtual_clock

pytestmark = pytest.mark.promise("P10", "P16")


ADAPTER_SETTINGS: dict[str, dict[str, Any]] = {"settings": {}}


def with_httpx(url: str, method: str, headers: dict[str, str]) -> None:
    with httpx.Client(transport=RetryTransport(**ADAPTER_SETTINGS["settings"])) as client:
        client.request(method, url, headers=headers).raise_for_status()


def with_requests(url: str, method: str, headers: dict[str, str]) -> None:
    with requests.Session() as session:
        session.mount("http://", RetryAdapter(**ADAPTER_SETTINGS["settings"]))
        session.request(method, url, headers=headers, timeout=30).raise_for_status()


def with_aiohttp(url: str, method: str, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with (
            aiohttp.ClientSession(
                middlewares=(retry_middleware(**ADAPTER_SETTINGS["settings"]),), raise_for_status=False
            ) as session,
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
    @redrive.retry(retry_on=redrive.ANYTHING)
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

    @redrive.retry(retry_on=redrive.ANYTHING)
    def place_order() -> None:
        calls.append(1)
        send(gone, "POST", {})

    with no_waits(), pytest.raises(Exception):  # noqa: PT011, B017 - each library has its own
        place_order()
    assert len(calls) == 3


def test_what_an_inner_call_never_retries_is_not_retried_outside_either() -> None:
    calls = []

    @redrive.retry(never_on=ConnectionResetError)
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
            redrive.retry(retry_on=OrderFailed)(order)()
        assert len(calls) == 1
        # Who knows better says so.
        with pytest.raises(OrderFailed):
            redrive.retry(retry_on=OrderFailed, idempotent=True)(order)()
        assert len(calls) == 4


class Order:
    """Work that must not be done twice; counts how often it was begun."""

    def __init__(self, **settings: Any) -> None:
        self.begun = 0
        self.place = redrive.retry(idempotent=False, **settings)(self._place)
        self.place_async = redrive.retry(idempotent=False, **settings)(self._place_async)

    def _place(self, error: Exception | None = None) -> None:
        self.begun += 1
        raise error or ConnectionResetError("the answer was lost")

    async def _place_async(self, seconds: float = 0.0) -> None:
        self.begun += 1
        await asyncio.sleep(seconds)
        raise ConnectionResetError("the answer was lost")


quick = redrive.retry(retry_on=redrive.ANYTHING, backoff=0, floor=0, jitter="none")


def kind_of(error: BaseException) -> str:
    report = redrive.report_of(error)
    assert report is not None
    return report.gave_up.kind


@pytest.mark.parametrize("wrap", ["from", "context", "from None", "group"])
def test_a_veto_survives_being_wrapped(wrap: str) -> None:
    order = Order()

    @quick
    def checkout() -> None:
        try:
            order.place()
        except ConnectionResetError as error:
            if wrap == "group":
                raise ExceptionGroup("several", [ValueError(), error]) from None
            if wrap == "from":
                raise RuntimeError from error
            if wrap == "context":
                raise RuntimeError  # noqa: B904 - that is the case under test
            raise RuntimeError from None

    with pytest.raises(Exception) as caught:  # noqa: PT011 - several kinds
        checkout()
    assert order.begun == 1
    assert kind_of(caught.value) == "not_idempotent"


def test_a_veto_survives_a_task_group() -> None:
    order = Order()

    @quick
    async def checkout() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(order.place_async())

    with pytest.raises(ExceptionGroup):
        asyncio.run(checkout())
    assert order.begun == 1


@pytest.mark.parametrize("cut_by", ["attempt_timeout", "asyncio.timeout", "independent"])
def test_unsafe_work_that_was_interrupted_is_not_repeated(cut_by: str) -> None:
    order = Order()
    timeout = 0.02 if cut_by != "asyncio.timeout" else None

    @redrive.retry(independent=True)
    async def between() -> None:
        await order.place_async(30)

    @redrive.retry(backoff=0, floor=0, jitter="none", attempt_timeout=timeout)
    async def checkout() -> None:
        if cut_by == "independent":
            await between()
        async with asyncio.timeout(0.02 if cut_by == "asyncio.timeout" else None):
            await order.place_async(30)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(checkout())
    assert order.begun == 1
    assert kind_of(caught.value) == "not_idempotent"


def test_unsafe_work_that_was_left_behind_in_a_thread_is_not_repeated() -> None:
    release = threading.Event()
    begun: list[int] = []

    @redrive.retry(idempotent=False)
    def place() -> None:
        begun.append(1)
        release.wait(30)

    @redrive.retry(backoff=0, floor=0, jitter="none", attempt_timeout=0.02)
    def checkout() -> None:
        place()

    try:
        with pytest.raises(redrive.AttemptTimeoutError):
            checkout()
    finally:
        release.set()
    assert len(begun) == 1


def test_work_that_was_interrupted_but_is_safe_is_repeated() -> None:
    begun: list[int] = []

    @redrive.retry
    async def read() -> str:
        begun.append(1)
        if len(begun) < 3:
            await asyncio.sleep(30)
        return "read"

    @redrive.retry(backoff=0, floor=0, jitter="none", attempt_timeout=0.02)
    async def page() -> str:
        return await read()

    assert asyncio.run(page()) == "read"
    assert len(begun) == 3


def test_a_veto_is_for_the_enclosing_call_only() -> None:
    shared = ConnectionResetError("one object, raised again and again")
    order = Order()
    with pytest.raises(ConnectionResetError):
        quick(lambda: order.place(shared))()
    calls: list[int] = []

    @redrive.retry
    def harmless() -> None:
        return None

    @quick
    def unrelated() -> None:
        harmless()
        calls.append(1)
        raise shared

    with pytest.raises(ConnectionResetError):
        unrelated()
    assert (order.begun, len(calls)) == (1, 3)


def test_asking_for_a_retry_is_no_veto_when_nested_either() -> None:
    order = Order()
    with pytest.raises(redrive.RetryAfter), virtual_clock():
        redrive.retry(lambda: order.place(redrive.RetryAfter(1)))()
    assert order.begun == 3


@pytest.mark.parametrize("send", [with_httpx, with_requests, with_aiohttp])
def test_a_post_whose_own_time_is_up_is_not_repeated(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"attempt_timeout": 0.5}
    monkeypatch.setitem(ADAPTER_SETTINGS, "settings", settings)

    @quick
    def place_order() -> None:
        send(server.url, "POST", {})

    with FlakyServer(then=Reply(fault="hang")) as server, pytest.raises(TimeoutError) as caught:
        place_order()
    assert len(server.seen) == 1
    assert kind_of(caught.value) == "not_idempotent"


@pytest.mark.parametrize("send", [with_httpx, with_requests, with_aiohttp])
def test_a_success_that_the_policy_refuses_is_raised_inside_a_guard(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTER_SETTINGS, "settings", {"retry_on": ("transient", "status:202")})

    @quick
    def poll() -> None:
        send(server.url, "GET", {})

    with FlakyServer(202, 202, then=200) as server:
        poll()
    assert len(server.seen) == 3
