"""Errors of httpx, requests and aiohttp against real servers that really fail."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import httpcore
import httpx
import pytest
import requests
import urllib3

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.lookup import known_verdict

from .asking import ServeBytes, verdict_of

Get = Callable[..., Any]


def get_with_httpx(url: str, read_timeout: float = 5) -> None:
    httpx.get(url, timeout=httpx.Timeout(5, read=read_timeout), trust_env=False).raise_for_status()


def get_with_requests(url: str, read_timeout: float = 5) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=(5, read_timeout)).raise_for_status()


def get_with_aiohttp(url: str, read_timeout: float = 5) -> None:
    async def get() -> None:
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=read_timeout)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            response.raise_for_status()
            await response.read()

    asyncio.run(get())


CLIENTS = [get_with_httpx, get_with_requests, get_with_aiohttp]
every_client = pytest.mark.parametrize("get", CLIENTS)


def failure_of(get: Get, *args: Any) -> Verdict:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is what the tests look at
        get(*args)
    assert type(caught.value).__module__.split(".")[0] in ("httpx", "requests", "aiohttp")
    return verdict_of(caught.value)


@every_client
@pytest.mark.promise("P1", "P10", "A2")
def test_a_refused_connection_passes_and_was_not_sent(get: Get, closed_port: int) -> None:
    verdict = failure_of(get, f"http://127.0.0.1:{closed_port}/")
    assert (verdict.category, verdict.not_sent) == ("transient", True)


@every_client
@pytest.mark.promise("P1", "P10", "A2")
def test_a_name_that_does_not_resolve_passes_and_was_not_sent(get: Get) -> None:
    verdict = failure_of(get, "http://nonexistent.invalid/")
    assert (verdict.category, verdict.not_sent) == ("transient", True)


@every_client
@pytest.mark.promise("P1", "P10", "A2")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf",
        b"garbage\r\n\r\n",
    ],
    ids=["reset", "cut off", "cut off in a chunk", "not HTTP"],
)
def test_a_broken_answer_passes_but_may_have_taken_effect(get: Get, serve_bytes: ServeBytes, answer: bytes) -> None:
    verdict = failure_of(get, serve_bytes(answer))
    assert (verdict.category, verdict.not_sent) == ("transient", False)
    assert verdict.status is None


@every_client
@pytest.mark.promise("P1", "P10", "S1", "A2")
def test_a_read_timeout_passes_but_may_have_taken_effect(get: Get) -> None:
    # Connections to a listening port are made before anyone accepts them, and then nothing comes.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        verdict = failure_of(get, f"http://127.0.0.1:{silent.getsockname()[1]}/", 0.05)
    assert (verdict.category, verdict.not_sent) == ("transient", False)


@every_client
@pytest.mark.promise("S1", "P7")
@pytest.mark.parametrize(
    ("status", "category"),
    [(429, "transient"), (500, "transient"), (503, "transient"), (400, "permanent"), (404, "permanent")],
)
def test_an_answer_goes_by_its_status(get: Get, serve_bytes: ServeBytes, status: int, category: str) -> None:
    url = serve_bytes(f"HTTP/1.1 {status} Said\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n".encode())
    verdict = failure_of(get, url)
    assert (verdict.category, verdict.status, verdict.retry_after) == (category, status, "17")
    assert verdict.not_sent == (status == 429)


@every_client
@pytest.mark.promise("P2")
@pytest.mark.parametrize("url", ["nonsense://x/", "http://x:not-a-port/", "http:///nohost"])
def test_a_url_that_cannot_be_used_stays_so(get: Get, url: str) -> None:
    verdict = failure_of(get, url)
    assert verdict.category == "permanent"


@every_client
def test_speaking_tls_to_a_server_that_does_not_stays_wrong(get: Get, serve_bytes: ServeBytes) -> None:
    url = serve_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n").replace("http:", "https:")
    assert failure_of(get, url).category == "permanent"


class TestCertificates:
    refused = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed")

    def test_httpx_keeps_it_inside_httpcores_error(self) -> None:
        inner = httpcore.ConnectError(self.refused)
        error = httpx.ConnectError("x")
        error.__cause__ = inner
        assert verdict_of(error).category == "permanent"
        assert "certificate" in verdict_of(error).reason

    def test_requests_keeps_it_inside_urllib3s_error(self) -> None:
        pool = urllib3.HTTPSConnectionPool("localhost")
        error = requests.exceptions.SSLError(
            urllib3.exceptions.MaxRetryError(pool, "/", urllib3.exceptions.SSLError(self.refused))
        )
        assert verdict_of(error).category == "permanent"
        assert verdict_of(requests.exceptions.SSLError("no detail")).category == "unknown"
        pool.close()

    def test_aiohttp_has_a_class_for_it(self) -> None:
        key: Any = type("Key", (), {"host": "x", "port": 1, "is_ssl": True, "ssl": True})()
        assert verdict_of(aiohttp.ClientConnectorCertificateError(key, self.refused)).category == "permanent"
        broken = aiohttp.ClientConnectorSSLError(key, ssl.SSLEOFError(8, "EOF"))
        assert (verdict_of(broken).category, verdict_of(broken).not_sent) == ("transient", True)


class TestHttpx:
    @pytest.mark.promise("P10")
    @pytest.mark.parametrize("error", [httpx.ConnectError("x"), httpx.ConnectTimeout("x"), httpx.PoolTimeout("x")])
    def test_before_it_was_sent(self, error: Exception) -> None:
        assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", True)

    @pytest.mark.parametrize(
        "error",
        [
            httpx.ReadTimeout("x"),
            httpx.WriteTimeout("x"),
            httpx.ReadError("x"),
            httpx.WriteError("x"),
            httpx.CloseError("x"),
            httpx.RemoteProtocolError("x"),
            httpcore.ReadError("x"),
        ],
    )
    def test_after_it_was_sent(self, error: Exception) -> None:
        assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", False)

    @pytest.mark.parametrize(
        "error",
        [
            httpx.UnsupportedProtocol("x"),
            httpx.InvalidURL("x"),
            httpx.TooManyRedirects("x"),
            httpx.DecodingError("x"),
            httpx.LocalProtocolError("x"),
            httpx.StreamConsumed(),
        ],
    )
    def test_what_stays(self, error: Exception) -> None:
        assert verdict_of(error).category == "permanent"

    def test_a_proxy_says_its_status_in_text(self) -> None:
        assert verdict_of(httpx.ProxyError("407 Proxy Authentication Required")).category == "permanent"
        assert verdict_of(httpx.ProxyError("502 Bad Gateway")).category == "transient"
        assert verdict_of(httpx.ProxyError("no idea")).category == "transient"
        assert verdict_of(httpx.ProxyError("502 Bad Gateway")).status is None

    def test_a_request_error_without_more_is_not_known(self) -> None:
        assert known_verdict(httpx.RequestError("x")) is None


class TestRequests:
    @pytest.mark.promise("P10")
    def test_a_connect_timeout_was_not_sent(self) -> None:
        assert verdict_of(requests.ConnectTimeout()).not_sent
        assert not verdict_of(requests.ReadTimeout()).not_sent
        assert verdict_of(requests.ReadTimeout()).category == "transient"

    @pytest.mark.parametrize(
        "error",
        [
            requests.exceptions.InvalidURL(),
            requests.exceptions.MissingSchema(),
            requests.exceptions.InvalidHeader(),
            requests.exceptions.TooManyRedirects(),
            requests.exceptions.ContentDecodingError(),
            requests.exceptions.JSONDecodeError("x", "y", 0),
        ],
    )
    def test_what_stays(self, error: Exception) -> None:
        assert verdict_of(error).category == "permanent"

    @pytest.mark.parametrize(
        "error",
        [requests.ConnectionError("x"), requests.exceptions.ChunkedEncodingError(), requests.exceptions.Timeout()],
    )
    def test_what_passes(self, error: Exception) -> None:
        assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", False)

    def test_urllib3_used_up_its_own_retries(self, serve_bytes: ServeBytes) -> None:
        url = serve_bytes(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        with requests.Session() as session:
            retries = urllib3.Retry(1, status_forcelist=[503], backoff_factor=0)
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
            session.trust_env = False
            verdict = failure_of(session.get, url)
        assert (verdict.category, verdict.status) == ("transient", 503)

    def test_a_tunnel_says_its_status_in_text(self) -> None:
        refused = OSError("Tunnel connection failed: 407 Proxy Authentication Required")
        error = urllib3.exceptions.ProxyError("Unable to connect to proxy", refused)
        assert (verdict_of(error).category, verdict_of(error).not_sent) == ("permanent", True)
        assert verdict_of(requests.exceptions.ProxyError(error)).category == "permanent"
        assert verdict_of(requests.exceptions.ProxyError("no idea")).category == "transient"

    def test_an_http_error_without_a_response_is_not_known(self) -> None:
        assert known_verdict(requests.HTTPError("x")) is None


class TestAiohttp:
    def test_a_gateways_error_page_goes_by_its_status(self, serve_bytes: ServeBytes) -> None:
        async def get(url: str) -> None:
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                await response.json()

        head = b"Content-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"
        bad_gateway = failure_of(lambda url: asyncio.run(get(url)), serve_bytes(b"HTTP/1.1 502 Bad Gateway\r\n" + head))
        assert (bad_gateway.category, bad_gateway.status) == ("transient", 502)
        not_json = failure_of(lambda url: asyncio.run(get(url)), serve_bytes(b"HTTP/1.1 200 OK\r\n" + head))
        assert not_json.category == "permanent"

    def test_a_body_that_is_not_what_its_header_says_stays_so(self, serve_bytes: ServeBytes) -> None:
        url = serve_bytes(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip")
        for get in CLIENTS:
            assert failure_of(get, url).category == "permanent"

    @pytest.mark.promise("P10")
    def test_a_connection_timeout_was_not_sent(self) -> None:
        assert verdict_of(aiohttp.ConnectionTimeoutError()).not_sent
        assert not verdict_of(aiohttp.SocketTimeoutError()).not_sent
        assert verdict_of(aiohttp.SocketTimeoutError()).category == "transient"
