"""What is particular to one client library."""

import asyncio
import copy
import gc
import subprocess
import sys
import weakref
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import trio
import urllib3

import redrive
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.httpx import AsyncRetryTransport, RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply

from .clients import CLIENTS


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests", "aiohttp"])
def test_a_missing_library_names_the_extra_to_install(library: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None; import redrive.integrations.{library}"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert finished.returncode == 1
    assert f"pip install 'redrive[{library}]'" in finished.stderr.splitlines()[-1]


@pytest.mark.promise("P16")
def test_urllib3_must_not_retry_beside_the_policy() -> None:
    for retries in (3, urllib3.Retry(3), urllib3.Retry(0)):
        with pytest.raises(ValueError, match="use attempts="):
            RetryAdapter(max_retries=retries)


@pytest.mark.promise("P16")
def test_an_inner_httpx_transport_must_not_retry_beside_the_policy() -> None:
    with pytest.raises(ValueError, match="retries=0"):
        RetryTransport(transport=httpx.HTTPTransport(retries=2))
    with pytest.raises(ValueError, match="retries=0"):
        AsyncRetryTransport(transport=httpx.AsyncHTTPTransport(retries=2))


def test_an_adapter_of_requests_is_not_copied_into_another_process() -> None:
    with pytest.raises(TypeError, match="make a new one"):
        copy.deepcopy(RetryAdapter())


@pytest.mark.promise("P10")
def test_the_callers_request_is_left_as_it_was() -> None:
    """Sent a second time, it is another request, and must get another key."""
    with FlakyServer(then=200) as server:
        with httpx.Client(transport=RetryTransport(idempotency_keys=True)) as client:
            mine = client.build_request("POST", server.url, json={"n": 1})
            client.send(mine)
            client.send(mine)
        with requests.Session() as session:
            session.mount("http://", RetryAdapter(idempotency_keys=True))
            prepared = session.prepare_request(requests.Request("POST", server.url, json={"n": 1}))
            session.send(prepared, timeout=5)
            session.send(prepared, timeout=5)
        assert "Idempotency-Key" not in mine.headers
        assert "Idempotency-Key" not in prepared.headers
        assert len({seen.headers["idempotency-key"] for seen in server.seen}) == 4


@pytest.mark.promise("P10")
def test_a_single_httpx_request_may_be_declared_safe() -> None:
    with FlakyServer(500, then=200) as server, httpx.Client(transport=RetryTransport()) as client:
        search = client.post(server.url, json={"q": "x"}, extensions={"redrive": {"idempotent": True}})
        assert search.status_code == 200


@pytest.mark.promise("P10")
def test_the_report_is_found_through_the_status_error() -> None:
    with FlakyServer(then=503) as server, httpx.Client(transport=RetryTransport()) as client:
        response = client.get(server.url)
        with pytest.raises(httpx.HTTPStatusError) as caught:
            response.raise_for_status()
        assert redrive.report_of(caught.value) is redrive.report_of(response) is not None
    with FlakyServer(then=503) as server, requests.Session() as session:
        session.mount("http://", RetryAdapter())
        with pytest.raises(requests.HTTPError) as raised:
            session.get(server.url, timeout=5).raise_for_status()
        assert redrive.report_of(raised.value) is not None


def test_a_raised_status_of_httpx_can_be_read() -> None:
    with FlakyServer(then=Reply(status=503, body={"why": "full"})) as server:
        transport = RetryTransport(raise_on_failure=True)
        with httpx.Client(transport=transport) as client, pytest.raises(httpx.HTTPStatusError) as caught:
            client.get(server.url)
        assert caught.value.response.json() == {"why": "full"}


def test_mock_transports_of_httpx_can_be_wrapped() -> None:
    answers = iter([httpx.Response(503), httpx.Response(200, json={"ok": True})])
    inner = httpx.MockTransport(lambda request: next(answers))
    with httpx.Client(transport=RetryTransport(transport=inner)) as client:
        assert client.get("http://example.invalid/").json() == {"ok": True}


def test_errors_of_httpx_know_their_request() -> None:
    transport = RetryTransport(deadline=0.1)
    with (
        FlakyServer(then=Reply(fault="hang")) as server,
        httpx.Client(transport=transport) as client,
        pytest.raises(httpx.TimeoutException) as caught,
    ):
        client.get(server.url)
    assert caught.value.request.method == "GET"


def test_redirects_of_httpx_are_followed_and_each_hop_is_guarded() -> None:
    moved = Reply(status=307, headers={"Location": "/there"})
    with FlakyServer(503, moved, 503, then=Reply(body={"here": True})) as server:
        transport = RetryTransport(idempotency_keys=True)
        with httpx.Client(transport=transport, follow_redirects=True) as client:
            assert client.post(server.url, json={"n": 1}).json() == {"here": True}
        keys = [seen.headers["idempotency-key"] for seen in server.seen]
        assert keys[0] == keys[1]
        assert keys[2] == keys[3]


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_streamed_failure_of_requests_is_returned_unread_or_read(wrapped: bool) -> None:
    reply = Reply(status=500, body=b"x" * (2_000_000 if wrapped else 20))
    with FlakyServer(then=reply) as server, requests.Session() as session:
        session.mount("http://", RetryAdapter(pool_maxsize=1, pool_block=True))
        with session.get(server.url, stream=True, timeout=5) as response:
            assert b"".join(response.iter_content(1000)) == reply.body
            assert redrive.report_of(response) is not None
        assert len(server.seen) == 3


@pytest.mark.promise("P16")
def test_aiohttp_does_not_repeat_a_call_that_gave_up() -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(retry_middleware(attempts=2),)) as session:
            for _ in range(3):
                with pytest.raises(aiohttp.ServerDisconnectedError) as caught:
                    await session.get(server.url)
                report = redrive.report_of(caught.value)
                assert report is not None
                assert report.made == 2

    with FlakyServer(then=Reply(fault="close")) as server:
        asyncio.run(main())
        assert len(server.seen) == 6


@pytest.mark.promise("P16")
def test_concurrent_calls_of_aiohttp_end_each_in_their_own_way() -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(middlewares=(retry_middleware(attempts=2),)) as session:

            async def get(number: int) -> None:
                with pytest.raises(aiohttp.ServerDisconnectedError) as caught:
                    await session.get(f"{server.url}/{number}")
                report = redrive.report_of(caught.value)
                assert report is not None
                assert report.operation.endswith(f"/{number}")

            await asyncio.gather(*map(get, range(20)))

    with FlakyServer(then=Reply(fault="close")) as server:
        asyncio.run(main())
        assert len(server.seen) == 40


def test_a_websocket_of_aiohttp_passes_through() -> None:
    from aiohttp import web

    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/", echo)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            async with (
                aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session,
                session.ws_connect(f"http://{host}:{port}/") as socket,
            ):
                await socket.send_str("hello")
                assert (await socket.receive()).data == "hello"
        finally:
            await runner.cleanup()

    asyncio.run(main())


@pytest.mark.parametrize("when", ["attempt", "body"])
def test_a_cancelled_request_is_cancelled_and_leaves_nothing_behind(when: str) -> None:
    reply = Reply(fault="hang" if when == "attempt" else "hang_body", body={"long": "enough"})

    async def under_asyncio() -> None:
        async with (
            httpx.AsyncClient(transport=AsyncRetryTransport()) as client,
            aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session,
        ):
            clients: list[Any] = [client, session]
            for number, one in enumerate(clients, start=1):
                task: asyncio.Future[Any] = asyncio.ensure_future(one.get(server.url))
                while len(server.seen) < number:
                    await asyncio.wait([task], timeout=0.01)
                await asyncio.wait([task], timeout=0.05)
                assert not task.done()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    async def under_trio() -> None:
        async with httpx.AsyncClient(transport=AsyncRetryTransport()) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.get, server.url)
                while len(server.seen) < 3:  # noqa: ASYNC110 - the server's thread has no trio event to set
                    await trio.sleep(0.01)
                await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
            assert nursery.cancel_scope.cancelled_caught

    with FlakyServer(then=reply) as server:
        asyncio.run(under_asyncio())
        trio.run(under_trio)
        assert len(server.seen) == 3


@pytest.mark.parametrize("name", ["httpx", "requests"])
def test_a_failed_call_leaves_no_cycles(name: str) -> None:
    """What a failed call held is freed at once, not whenever the collector comes round."""
    client = next(client for client in CLIENTS if client.name == name)
    held: list[weakref.ref[BaseException]] = []

    def fail() -> None:
        try:
            client.send("GET", server.url)
        except client.any_error as error:
            report = redrive.report_of(error)
            assert report is not None
            earlier = [record.failure.error for record in report.attempts]
            held.extend(weakref.ref(one) for one in (error, *earlier) if one is not None)
            del report, earlier

    gc.disable()
    try:
        with FlakyServer(then=Reply(fault="close")) as server:
            fail()
        assert len(held) == 3
        assert [one() for one in held] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"operation": None}, "operation: None is not allowed; use a name"),
        ({"on_event": 5}, "on_event: use a function"),
        ({"statuses": 5}, "statuses: 5 is not allowed; use a mapping"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_write(settings: dict[str, Any], says: str) -> None:
    for adapter in (RetryTransport, AsyncRetryTransport, RetryAdapter, retry_middleware):
        with pytest.raises(TypeError, match=says):
            adapter(**settings)


@pytest.mark.parametrize("options", [True, {"idempotant": True}])
def test_wrong_options_of_a_request_are_refused_with_what_to_write(options: Any) -> None:
    transport = RetryTransport(transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    with httpx.Client(transport=transport) as client, pytest.raises(TypeError, match=r'use \{"idempotent": True'):
        client.post("http://api.example.com/", extensions={"redrive": options})
