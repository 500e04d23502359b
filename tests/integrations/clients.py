"""The HTTP clients with their adapters, behind one face: what holds for one of them must hold for all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2
import msgspec
import requests
import trio

import redrive
import redrive.integrations.httpx
import redrive.integrations.httpx2
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.requests import RetryAdapter


class Outgoing(msgspec.Struct, kw_only=True):
    """A request to be sent."""

    method: str = "GET"
    url: str
    headers: dict[str, str] = {}
    body: bytes | None = None
    streamed: bool = False
    """Send the body from a generator, which can be read only once."""
    read_timeout: float = 5.0


class Answer(msgspec.Struct, kw_only=True):
    """What came back."""

    status: int
    body: bytes
    report: redrive.policies.Report | None


class Client:
    """Sends requests through the adapter under test, each batch in a session of its own."""

    name: str
    any_error: type[Exception]
    """The base of all that the library raises about a request."""
    timeout_error: type[Exception]
    status_error: type[Exception]

    def send_all(self, batch: list[Outgoing], pool: int = 10, **settings: Any) -> list[Answer]:
        raise NotImplementedError

    def send(self, method: str, url: str, *, settings: dict[str, Any] | None = None, **request: Any) -> Answer:
        (answer,) = self.send_all([Outgoing(method=method, url=url, **request)], **(settings or {}))
        return answer

    def adapter(self, **settings: Any) -> object:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


def pieces(body: bytes | None) -> Iterator[bytes]:
    yield from [(body or b"")[:3], (body or b"")[3:]]


async def async_pieces(body: bytes | None) -> AsyncIterator[bytes]:
    for piece in pieces(body):
        yield piece


class Httpx(Client):
    """httpx, or httpx2, which has the same classes."""

    library: Any
    transports: Any

    def __init__(self, library: Any, transports: Any, name: str) -> None:
        self.library = library
        self.transports = transports
        self.name = name
        self.any_error = library.HTTPError
        self.timeout_error = library.TimeoutException
        self.status_error = library.HTTPStatusError


class HttpxSync(Httpx):
    def adapter(self, pool: int = 10, **settings: Any) -> Any:
        inner = self.library.HTTPTransport(limits=self.library.Limits(max_connections=pool))
        return self.transports.RetryTransport(transport=inner, **settings)

    def send_all(self, batch: list[Outgoing], pool: int = 10, **settings: Any) -> list[Answer]:
        with self.library.Client(transport=self.adapter(pool, **settings)) as client:
            return [self._send_one(client, out) for out in batch]

    def _send_one(self, client: Any, out: Outgoing) -> Answer:
        content = pieces(out.body) if out.streamed else out.body
        timeout = self.library.Timeout(5, read=out.read_timeout)
        response = client.request(out.method, out.url, headers=out.headers, content=content, timeout=timeout)
        report = redrive.report_of(response)
        assert response.extensions.get("redrive") is report
        return Answer(status=response.status_code, body=response.content, report=report)


class HttpxAsync(Httpx):
    def __init__(
        self,
        library: Any,
        transports: Any,
        name: str,
        run: Callable[[Callable[[], Coroutine[Any, Any, list[Answer]]]], list[Answer]],
    ) -> None:
        super().__init__(library, transports, name)
        self._run = run

    def adapter(self, pool: int = 10, **settings: Any) -> Any:
        inner = self.library.AsyncHTTPTransport(limits=self.library.Limits(max_connections=pool))
        return self.transports.AsyncRetryTransport(transport=inner, **settings)

    def send_all(self, batch: list[Outgoing], pool: int = 10, **settings: Any) -> list[Answer]:
        async def main() -> list[Answer]:
            async with self.library.AsyncClient(transport=self.adapter(pool, **settings)) as client:
                return [await self._send_one(client, out) for out in batch]

        return self._run(main)

    async def _send_one(self, client: Any, out: Outgoing) -> Answer:
        content = async_pieces(out.body) if out.streamed else out.body
        timeout = self.library.Timeout(5, read=out.read_timeout)
        response = await client.request(out.method, out.url, headers=out.headers, content=content, timeout=timeout)
        report = redrive.report_of(response)
        assert response.extensions.get("redrive") is report
        return Answer(status=response.status_code, body=response.content, report=report)


class Requests(Client):
    name = "requests"
    any_error = requests.RequestException
    timeout_error = requests.Timeout
    status_error = requests.HTTPError

    def adapter(self, pool: int = 10, **settings: Any) -> RetryAdapter:
        return RetryAdapter(pool_maxsize=pool, pool_block=True, **settings)

    def send_all(self, batch: list[Outgoing], pool: int = 10, **settings: Any) -> list[Answer]:
        with requests.Session() as session:
            session.trust_env = False
            session.mount("http://", self.adapter(pool, **settings))
            return [self._send_one(session, out) for out in batch]

    def _send_one(self, session: requests.Session, out: Outgoing) -> Answer:
        data: Any = pieces(out.body) if out.streamed else out.body
        response = session.request(out.method, out.url, headers=out.headers, data=data, timeout=(5, out.read_timeout))
        return Answer(status=response.status_code, body=response.content, report=redrive.report_of(response))


class Aiohttp(Client):
    name = "aiohttp"
    any_error = aiohttp.ClientError
    timeout_error = aiohttp.ServerTimeoutError
    status_error = aiohttp.ClientResponseError

    def adapter(self, **settings: Any) -> Any:
        return retry_middleware(**settings)

    def send_all(self, batch: list[Outgoing], pool: int = 10, **settings: Any) -> list[Answer]:
        async def main() -> list[Answer]:
            connector = aiohttp.TCPConnector(limit=pool)
            middleware = self.adapter(**settings)
            async with aiohttp.ClientSession(connector=connector, middlewares=(middleware,)) as session:
                return [await self._send_one(session, out) for out in batch]

        return asyncio.run(main())

    async def _send_one(self, session: aiohttp.ClientSession, out: Outgoing) -> Answer:
        data: Any = async_pieces(out.body) if out.streamed else out.body
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=out.read_timeout)
        async with session.request(out.method, out.url, headers=out.headers, data=data, timeout=timeout) as response:
            return Answer(status=response.status, body=await response.read(), report=redrive.report_of(response))


HTTPX = httpx, redrive.integrations.httpx
HTTPX2 = httpx2, redrive.integrations.httpx2
CLIENTS: list[Client] = [
    HttpxSync(*HTTPX, "httpx"),
    HttpxAsync(*HTTPX, "httpx-asyncio", lambda main: asyncio.run(main())),
    HttpxAsync(*HTTPX, "httpx-trio", trio.run),
    HttpxSync(*HTTPX2, "httpx2"),
    HttpxAsync(*HTTPX2, "httpx2-asyncio", lambda main: asyncio.run(main())),
    Requests(),
    Aiohttp(),
]
