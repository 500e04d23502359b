"""Slow, half-sent, huge and many requests do not shut others out, and health checks are answered."""

import asyncio
import contextlib
import functools
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx
import pytest
from tests.server import shop
from tests.server.serving import Serving, problem, received, serving

import redrive
from redrive.server.api import Api
from redrive.server.settings import ServerSettings
from redrive.server.transport.body_budget import BodyBudget
from redrive.server.transport.connections import Connections, peer_of

pytestmark = pytest.mark.promise("X9")

HALF_HEADERS = b"GET /v1/flows HTTP/1.1\r\nHost: localhost\r\nX-Half"
HALF_BODY = (
    b"POST /v1/flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    b"Content-Length: 100\r\n\r\n"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""What the server sends once it reads the body."""
CLOSING = b"Host: localhost\r\nConnection: close\r\n\r\n"
LIST = b"GET /v1/flows HTTP/1.1\r\n" + CLOSING
HEALTH = b"GET /healthz HTTP/1.1\r\n" + CLOSING


@contextlib.contextmanager
def connections(server: Serving, count: int, sent: bytes, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """That many connections on which `sent` was sent, until the block ends."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(server.connect(sent, source)) for _ in range(count)]
        if sent is HALF_BODY:
            assert [raw.recv(len(CONTINUE)) for raw in made] == [CONTINUE] * count
        yield made


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return functools.wraps(test)(lambda: asyncio.run(test()))


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer.split()[1])


def test_half_sent_requests_shut_nobody_out() -> None:
    few: dict[str, Any] = {"connections": 20, "connections_per_peer": 20, "reserve": 2}
    with serving(worker=False, **few) as server, connections(server, 60, HALF_HEADERS):
        for request in (HEALTH, LIST) * 5:
            assert status(received(server.connect(request))) == 200
        assert server.open_connections <= 22


def test_connections_without_a_request_shut_nobody_out() -> None:
    few: dict[str, Any] = {"connections": 20, "connections_per_peer": 20, "reserve": 2}
    with serving(worker=False, **few) as server, connections(server, 60, b""):
        assert status(received(server.connect(LIST))) == 200


def test_headers_that_do_not_come_are_not_waited_for() -> None:
    with serving(worker=False, header_timeout=0.2) as server:
        answer = received(server.connect(HALF_HEADERS))
        assert status(answer) == 408
        assert b"application/problem+json" in answer


def test_headers_that_come_byte_by_byte_are_not_waited_for() -> None:
    with serving(worker=False, header_timeout=0.3) as server, server.connect(HALF_HEADERS) as raw:
        raw.settimeout(0.02)
        server.until(lambda: _one_more_byte(raw), lambda answer: answer is not None)


def _one_more_byte(raw: socket.socket) -> bytes | None:
    """What the server says to one more byte; None if it says nothing yet."""
    try:
        raw.sendall(b"x")
        return raw.recv(1000)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


def test_the_second_request_of_a_connection_has_the_same_deadline() -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(worker=False, header_timeout=1.0) as server, server.connect(whole) as raw:
        assert status(raw.recv(10_000)) == 200
        raw.sendall(HALF_HEADERS)
        # The rest of the first answer may come in a packet of its own.
        assert b"HTTP/1.1 408 " in received(raw)


def test_when_all_places_are_taken_health_checks_are_answered() -> None:
    with serving(worker=False, connections=3, connections_per_peer=3, reserve=2) as server:
        with connections(server, 3, HALF_BODY):
            answer = received(server.connect(LIST))
            assert status(answer) == 503
            assert b"retry-after: 1" in answer
            assert b"application/problem+json" in answer
            for _ in range(5):
                assert status(received(server.connect(HEALTH))) == 200
            with connections(server, 10, HALF_HEADERS):
                assert status(received(server.connect(HEALTH))) == 200
        server.until(lambda: status(received(server.connect(LIST))), lambda code: code == 200)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of this machine on Linux only")
def test_one_peer_cannot_take_all_places() -> None:
    few: dict[str, Any] = {"connections": 10, "connections_per_peer": 2, "reserve": 1}
    with serving(worker=False, **few) as server, connections(server, 2, HALF_BODY, source="127.0.0.2"):
        assert status(received(server.connect(LIST, "127.0.0.2"))) == 503
        assert status(received(server.connect(LIST))) == 200


def test_places_are_given_back() -> None:
    with serving(worker=False) as server:
        for sent in (b"", HALF_HEADERS, HALF_BODY, LIST, b"\x00\r\n\r\n"):
            with connections(server, 10, sent):
                pass
        server.until(lambda: server.open_connections, lambda count: count == 0)


def test_a_body_that_comes_slowly_is_not_waited_for() -> None:
    with serving(worker=False, body_grace=0.2, body_rate=1000.0) as server, server.connect(HALF_BODY) as raw:
        assert raw.recv(len(CONTINUE)) == CONTINUE
        raw.settimeout(0.02)
        answer = server.until(lambda: _one_more_byte(raw), lambda answer: answer is not None)
        assert status(answer) == 408


def test_a_body_that_comes_fast_enough_may_take_its_time() -> None:
    with serving(worker=False, body_grace=0.2, body_rate=10.0) as server:
        body = b'{"action": "srv_pay", "inputs": {"cents": 1}}'
        with server.connect(HALF_BODY.replace(b" 100\r", b" %d\r" % len(body))) as raw:
            assert raw.recv(len(CONTINUE)) == CONTINUE
            for byte in body:
                raw.sendall(bytes([byte]))
                time.sleep(0.01)
            assert status(raw.recv(10_000)) == 201


def test_a_body_that_is_not_read_does_not_hold_the_connection() -> None:
    """The answer comes first; who goes on sending is disconnected."""
    with serving(worker=False, linger=0.2) as server:
        server.key("read")
        with server.connect(b"POST /v1/flows HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n") as raw:
            assert status(raw.recv(10_000)) == 401
            raw.settimeout(0.02)
            server.until(lambda: _one_more_chunk(raw), lambda gone: gone)


def _one_more_chunk(raw: socket.socket) -> bool:
    """Whether the connection has ended."""
    try:
        raw.sendall(b"1\r\nx\r\n")
        return raw.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_client_that_does_not_read_is_disconnected() -> None:
    with serving(worker=False, write_timeout=0.3, rate=1e6, burst=10**6) as server, server.connect() as raw:
        raw.settimeout(0.5)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(TimeoutError, ConnectionError):
            while True:
                raw.sendall(request * 100)
        server.until(lambda: server.open_connections, lambda count: count == 0)


def test_a_completion_without_a_valid_token_is_refused_before_its_body_is_read() -> None:
    with serving() as server:
        flow_id = server.start("action:srv_flaky")
        for token in ("nonsense", f"{flow_id}.1.nonsense", f"{flow_id}.999.nonsense"):
            for size in (b"Content-Length: 8000000", b"Transfer-Encoding: chunked"):
                request = b"POST /v1/completions/%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (token.encode(), size)
                with server.connect(request) as raw:
                    answer = raw.recv(10_000)
                    assert status(answer) == 404
                    assert token.encode() not in answer


def test_large_bodies_wait_for_each_other_and_small_ones_do_not() -> None:
    limits: dict[str, Any] = {"bodies": 200_000, "bodies_per_caller": 200_000, "bodies_patience": 0.1}
    large = {"action": "srv_pay", "inputs": {"cents": "x" * 150_000}}
    with serving(worker=False, **limits) as server:
        with server.connect(HALF_BODY.replace(b" 100\r", b" 150000\r")) as raw:
            assert raw.recv(len(CONTINUE)) == CONTINUE
            answer = server.client.post("/v1/flows", json=large)
            assert "try again later" in problem(answer, 503)["detail"]
            assert answer.headers["retry-after"] == "1"
            chunked = server.client.post("/v1/flows", content=iter([b"{" + b" " * 100_000]))
            problem(chunked, 503)
            assert server.start("action:srv_pay", {"cents": 1})
        server.until(lambda: server.client.post("/v1/flows", json=large).status_code, lambda code: code == 422)


def test_one_key_cannot_take_all_the_room_for_bodies() -> None:
    limits: dict[str, Any] = {"bodies": 300_000, "bodies_per_caller": 150_000, "bodies_patience": 0.1}
    large = {"action": "srv_pay", "inputs": {"cents": "x" * 100_000}}
    with serving(worker=False, **limits) as server:
        one, two = (f"Bearer {server.key('operate', name)}" for name in ("one", "two"))
        half = HALF_BODY.replace(b" 100\r", b" 100000\r").replace(
            b"\r\n", b"\r\nAuthorization: %s\r\n" % one.encode(), 1
        )
        with server.connect(half) as raw:
            assert raw.recv(len(CONTINUE)) == CONTINUE
            asked = {
                key: server.client.post("/v1/flows", json=large, headers={"Authorization": key}) for key in (one, two)
            }
            problem(asked[one], 503)
            problem(asked[two], 422)


@in_loop
async def test_a_turn_in_line_that_nobody_waits_for_is_given_on() -> None:
    budget = BodyBudget(total=100, per_caller=100, patience=60)
    assert await budget.claim("a", 100)
    first = asyncio.create_task(budget.claim("b", 60))
    second = asyncio.create_task(budget.claim("c", 60))
    await asyncio.sleep(0)
    budget.release("a", 100)
    # The turn has come, and its holder is cancelled before it knows.
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    assert await second
    assert budget.claimed == 60


@in_loop
async def test_a_caller_does_not_overtake_itself_in_line_and_others_do() -> None:
    budget = BodyBudget(total=100, per_caller=50, patience=60)
    assert await budget.claim("a", 40)
    waiting = asyncio.create_task(budget.claim("a", 30))
    await asyncio.sleep(0)
    behind = asyncio.create_task(budget.claim("a", 5))
    assert await budget.claim("b", 50)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not behind.done()
    budget.release("a", 40)
    assert await waiting
    assert await behind
    assert budget.claimed == 85


@in_loop
async def test_who_gives_up_in_line_makes_way_for_those_behind() -> None:
    budget = BodyBudget(total=100, per_caller=50, patience=60)
    assert await budget.claim("a", 40)
    large = asyncio.create_task(budget.claim("a", 30))
    await asyncio.sleep(0)
    behind = asyncio.create_task(budget.claim("a", 5))
    await asyncio.sleep(0)
    large.cancel()
    assert await behind
    assert budget.claimed == 45


@in_loop
async def test_a_body_larger_than_a_share_is_read_when_its_caller_has_no_other() -> None:
    budget = BodyBudget(total=10, per_caller=5, patience=60)
    assert await budget.claim("a", 100)
    budget.release("a", 100)
    assert budget.claimed == 0


def test_one_key_cannot_take_all_event_streams() -> None:
    with serving(worker=False, streams=4, streams_per_caller=2) as server, contextlib.ExitStack() as stack:
        flow = server.ask(lambda app: app.start(shop.pay(cents=1)))
        path = f"/v1/flows/{flow.id}/events"
        one, two, three = (
            {"Authorization": f"Bearer {server.key('read', name)}", "Accept": "text/event-stream"}
            for name in ("one", "two", "three")
        )
        for headers in (one, one, two):
            answer = stack.enter_context(server.client.stream("GET", path, headers=headers))
            assert answer.status_code == 200
        refused = server.client.get(path, headers=one)
        assert "you have 2 event streams open" in problem(refused, 503)["detail"]
        assert refused.headers["retry-after"] == "5"
        assert stack.enter_context(server.client.stream("GET", path, headers=two)).status_code == 200
        assert "too many event streams" in problem(server.client.get(path, headers=three), 503)["detail"]


@in_loop
async def test_the_addresses_of_one_ipv6_network_share_their_rate() -> None:
    async with redrive.open("memory://", worker=False) as app:
        served: Any = Api(app, ServerSettings(rate=0.001, burst=2), on_loopback=True).asgi

        async def ask(address: str) -> int:
            transport = httpx.ASGITransport(served, client=(address, 5000))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return (await client.get("/v1/flows")).status_code

        addresses = ("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1")
        assert [await ask(one) for one in addresses] == [200, 200, 429, 200]


class Fake:
    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.dropped = False

    def drop(self) -> None:
        self.dropped = True

    def check(self, now: float) -> None: ...


def test_the_connection_that_waited_longest_makes_room() -> None:
    kept = Connections(most=3, most_per_peer=2, reserve=1)
    first, second, other = Fake("a"), Fake("a"), Fake("b")
    assert [kept.admit(one) for one in (first, second, other)] == ["regular"] * 3
    kept.request_began(first)
    assert kept.admit(Fake("a")) == "regular"
    assert (first.dropped, second.dropped, other.dropped) == (False, True, False)
    kept.request_ended(first)
    assert kept.admit(Fake("c")) == "regular"
    assert other.dropped


def test_connections_with_a_request_are_never_dropped_for_others() -> None:
    kept = Connections(most=2, most_per_peer=2, reserve=1)
    busy = [Fake("a"), Fake("a")]
    for one in busy:
        kept.admit(one)
        kept.request_began(one)
    reserved, next_reserved = Fake("b"), Fake("b")
    assert kept.admit(reserved) == "reserved"
    assert kept.admit(next_reserved) == "reserved"
    assert reserved.dropped
    kept.request_began(next_reserved)
    assert kept.admit(Fake("c")) is None
    assert not any(one.dropped for one in (*busy, next_reserved))
    kept.release(busy[0])
    assert kept.admit(Fake("c")) == "regular"
    assert len(kept) == 3


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.7", 80), "10.0.0.7"),
        (("2001:db8:1:2:3:4:5:6", 80, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 80, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::/64"),
        (("::ffff:10.0.0.7", 80, 0, 0), "10.0.0.7"),
        (None, ""),
    ],
)
def test_a_peer_is_an_address_or_a_network_that_one_host_has(address: object, peer: str) -> None:
    assert peer_of(address) == peer


def test_floods_leave_few_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), serving(worker=False) as server:
        for _ in range(100):
            assert status(received(server.connect(b"nonsense\r\n\r\n"))) == 400
    lines = [one for one in caplog.records if one.name == "redrive.server.http"]
    assert 1 <= len(lines) < 50
