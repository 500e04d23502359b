"""Attempts go to public addresses, and elsewhere only where that is allowed."""

import ipaddress
import socket
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp.abc import ResolveResult
from hypothesis import given
from hypothesis import strategies as st
from tests.http_handlers import handlers
from tests.runners.http.step_calls import failure, outcome

from redrive.runners.http.addresses import AddressRules, is_public
from redrive.runners.http.settings import HttpSettings
from redrive.testing import FlakyServer

CLOSED = HttpSettings()


@pytest.fixture(scope="module")
def server() -> Iterator[FlakyServer]:
    with handlers() as server:
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names lead to; they are looked up here and nowhere else."""
    known: dict[str, list[str]] = {}

    async def resolve(
        _resolver: object, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in known[host]
        ]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    return known


def port_of(server: FlakyServer) -> str:
    return server.url.rpartition(":")[2]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.9.1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "0.0.0.0",  # noqa: S104 - nothing is bound to it
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "127.0.0.1.",
        "user@127.0.0.1",
        "example.com:80@127.0.0.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "①②⑦.⓪.⓪.①",
        "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
        "127。0。0。1",
        "%31%32%37.0.0.1",
    ],
)
def test_this_machine_is_not_called_however_it_is_spelled(server: FlakyServer, host: str) -> None:
    failed = failure(f"http://{host}:{port_of(server)}/ok", settings=CLOSED)
    # Some spellings are names that lead nowhere, which depends on the system.
    assert failed.category == "permanent" or "did not resolve" in failed.reason, failed
    assert server.seen == []


def test_the_refusal_says_what_to_set(server: FlakyServer) -> None:
    message = failure(f"{server.url}/ok", settings=CLOSED).message
    assert "127.0.0.1 is not a public address" in message
    assert "--allow 127.0.0.1" in message
    assert "HttpSettings(allow=" in message


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.1.1",
        "100.64.0.1",
        "198.18.0.1",
        "192.0.0.1",
        "192.0.0.9",
        "192.0.0.10",
        "192.88.99.1",
        "3fff::1",
        "3fff:fff::1",
        "2001:20::1",
        "5f00::1",
        "::ffff:0:8.8.8.8",
        "2001:0:7f00:1::1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "fd00::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:93.184.216.34",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::",
        "2001:db8::1",
        "not an address",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert AddressRules(()).first_refused(address, [address]) == address
    assert AddressRules(("private",)).first_refused(address, [address]) == ""


METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "169.254.42.42",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fe80::a9fe:a9fe",
    "fe80::a9fe:a9fe%eth0",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::ffff:168.63.129.16",
]


@pytest.mark.promise("X10")
@pytest.mark.parametrize("address", METADATA)
def test_the_credentials_of_the_machine_are_never_asked_for(address: str) -> None:
    """Not even where networks around them are allowed; only where exactly this address is."""
    for allow in ((), ("private",), ("169.254.0.0/16", "168.63.129.0/24", "fd00::/8", "::/0"), ("host.internal",)):
        assert AddressRules(allow).first_refused("host.internal", [address]) == address
    if "%" not in address:
        assert AddressRules((address,)).first_refused("host.internal", [address]) == ""


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946"])
def test_addresses_that_are_public(address: str) -> None:
    assert AddressRules(()).first_refused(address, [address]) == ""


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_refused_wherever_the_inner_one_is(inner: ipaddress.IPv4Address) -> None:
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert not is_public(ipaddress.IPv6Address(prefix | int(inner)))
    if inner.is_private or inner.is_loopback or inner.is_link_local or inner.is_multicast:
        assert not is_public(inner)


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8", "private"])
def test_what_is_allowed_is_called(server: FlakyServer, allowed: str) -> None:
    assert outcome(f"{server.url}/ok", settings=HttpSettings(allow=(allowed,))) == {"echo": {}}
    server.seen.clear()


@pytest.mark.parametrize("host", ["svc.internal", "SVC.internal", "svc.internal."])
def test_an_allowed_name_is_called_whatever_it_leads_to(
    server: FlakyServer, names: dict[str, list[str]], host: str
) -> None:
    names.update({host: ["127.0.0.1"], host.lower(): ["127.0.0.1"]})
    settings = HttpSettings(allow=("svc.internal",))
    assert outcome(f"http://{host}:{port_of(server)}/ok", settings=settings) == {"echo": {}}
    server.seen.clear()


def test_a_name_is_judged_by_every_address_it_leads_to(server: FlakyServer, names: dict[str, list[str]]) -> None:
    names["evil.example"] = ["93.184.216.34", "127.0.0.1"]
    failed = failure(f"http://evil.example:{port_of(server)}/ok", settings=CLOSED)
    assert failed.category == "permanent"
    assert "evil.example resolves to 127.0.0.1, which is not a public address" in failed.message
    assert server.seen == []


def test_a_name_that_leads_elsewhere_the_second_time_is_not_called(
    server: FlakyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked up is what is connected to; nothing looks the name up once more."""
    answers = iter(["127.0.0.2", "127.0.0.1"])
    lookups = 0

    async def resolve(_resolver: object, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        nonlocal lookups
        lookups += 1
        address = next(answers)
        return [ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    settings = HttpSettings(allow=("127.0.0.2",))
    failed = failure(f"http://rebind.example:{port_of(server)}/ok", settings=settings)
    assert (lookups, failed.category) == (1, "transient")
    assert failure(f"http://rebind.example:{port_of(server)}/ok", settings=settings).category == "permanent"
    assert server.seen == []


def test_a_proxy_of_the_environment_is_not_asked(server: FlakyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    assert failure("http://no-such-host.invalid/ok", settings=CLOSED).category == "transient"
    assert server.seen == []
