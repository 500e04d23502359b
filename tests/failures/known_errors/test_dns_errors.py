"""Errors of dnspython, from a DNS server that fails or has no answer."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import dns.asyncresolver
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.resolver
import dns.xfr
import pytest
from tests.failures.asking import error_of, verdict_of

Reply = Callable[[bytes], bytes]


@pytest.fixture
def serve_dns() -> Iterator[Callable[[Reply], int]]:
    """Start a DNS server on a UDP port; empty bytes are no answer."""
    with contextlib.ExitStack() as servers:

        def start(reply: Reply) -> int:
            server = servers.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            server.bind(("127.0.0.1", 0))

            def answer() -> None:
                while True:
                    query, client = server.recvfrom(65_536)
                    if query == b"stop":
                        return
                    server.sendto(reply(query), client)

            thread = threading.Thread(target=answer)
            thread.start()
            servers.callback(thread.join)
            servers.callback(server.sendto, b"stop", server.getsockname())
            port: int = server.getsockname()[1]
            return port

        yield start


def answer_with(code: dns.rcode.Rcode) -> Reply:
    def reply(query: bytes) -> bytes:
        response = dns.message.make_response(dns.message.from_wire(query))
        response.set_rcode(code)
        return response.to_wire()

    return reply


def settings(port: int, resolver: dns.resolver.BaseResolver) -> None:
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = port
    resolver.lifetime = 0.2
    resolver.timeout = 0.2


def resolve(port: int) -> None:
    resolver = dns.resolver.Resolver(configure=False)
    settings(port, resolver)
    resolver.resolve("example.com")


def resolve_asyncio(port: int) -> None:
    async def run() -> None:
        resolver = dns.asyncresolver.Resolver(configure=False)
        settings(port, resolver)
        await resolver.resolve("example.com")

    asyncio.run(run())


either_way = pytest.mark.parametrize("ask", [resolve, resolve_asyncio], ids=lambda ask: ask.__name__)


@pytest.mark.promise("L2")
@either_way
@pytest.mark.parametrize("code", [dns.rcode.SERVFAIL, dns.rcode.REFUSED], ids=dns.rcode.to_text)
def test_servers_that_fail(
    ask: Callable[[int], None], code: dns.rcode.Rcode, serve_dns: Callable[[Reply], int]
) -> None:
    port = serve_dns(answer_with(code))
    error = error_of(lambda: ask(port))
    assert isinstance(error, dns.resolver.NoNameservers | dns.resolver.LifetimeTimeout)
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("L2")
@either_way
@pytest.mark.parametrize("reply", [b"", b"garbage"], ids=["no answer", "garbage"])
def test_servers_that_do_not_answer(
    ask: Callable[[int], None], reply: bytes, serve_dns: Callable[[Reply], int]
) -> None:
    port = serve_dns(lambda _query: reply)
    assert verdict_of(error_of(lambda: ask(port))).category == "transient"


@pytest.mark.promise("P2")
@either_way
@pytest.mark.parametrize("code", [dns.rcode.NXDOMAIN, dns.rcode.NOERROR], ids=dns.rcode.to_text)
def test_names_without_a_record(
    ask: Callable[[int], None], code: dns.rcode.Rcode, serve_dns: Callable[[Reply], int]
) -> None:
    port = serve_dns(answer_with(code))
    verdict = verdict_of(error_of(lambda: ask(port)))
    assert (verdict.category, verdict.reason[:12]) == ("permanent", "missing data")


@pytest.mark.promise("P2")
@pytest.mark.parametrize("name", ["a..b", "a" * 64 + ".com", ".".join(["a" * 60] * 5)])
def test_names_that_cannot_be(name: str) -> None:
    assert verdict_of(error_of(lambda: dns.name.from_text(name))).category == "permanent"


@pytest.mark.promise("L2")
def test_zone_transfers() -> None:
    """Built by hand: it takes a server with zones."""
    failed: Any = dns.xfr.TransferError  # it has no annotations
    assert verdict_of(failed(dns.rcode.SERVFAIL)).category == "transient"
    assert verdict_of(failed(dns.rcode.REFUSED)).category == "permanent"
