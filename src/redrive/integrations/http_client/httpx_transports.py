"""The retrying transports of httpx and httpx2, which continues httpx with the same classes under another name.

The modules of the two libraries derive their transports from these, and give them the library's types.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

import msgspec

from redrive.errors import ResultRejectedError
from redrive.integrations.http_client.body_buffering import bytes_to_read
from redrive.integrations.http_client.exchange import carry_over, exchange, exchange_async
from redrive.integrations.http_client.http_guard import ClientLibrary, GuardedRequest, HttpGuard
from redrive.integrations.http_client.httpx_bodies import read_ahead, read_ahead_async, rewind_of_stream
from redrive.integrations.http_client.inner_transport import ASYNC, SYNC, refuse_client
from redrive.integrations.http_client.rewinding import Rewind, no_rewind
from redrive.policies.report import ATTRIBUTE, report_of


class HttpxFamily(msgspec.Struct, frozen=True):
    """httpx or httpx2."""

    library: Any
    client: ClientLibrary[Any]


class SyncRetries:
    """Sends the requests of a client through another transport until they succeed or the policy gives up."""

    _family: HttpxFamily
    _guard: HttpGuard[Any]
    _transport: Any

    def handle_request(self, request: Any) -> Any:
        library, guard = self._family.library, self._guard
        guarded, rewind = _begin(self._family, guard, request)
        limits = _TimeLimits(request.extensions.get("timeout") or {}, guarded.time_left)
        outgoing = _outgoing(library, guarded, request, limits)
        limit = _options(request).get("buffer_limit", guard.buffer_limit)

        def send() -> Any:
            rewind()
            outgoing.headers.update(guarded.headers_of_attempt())
            response = self._transport.handle_request(outgoing)
            wanted = bytes_to_read(response.headers, limit, failed=guard.refuses(response))
            if wanted and not response.is_stream_consumed:
                read_ahead(library, response, wanted, guarded.check_time)
            return response

        try:
            response = exchange(guarded, send, library.Response.close)
        except library.RequestError as error:
            error.request = request
            raise
        _show_report(response, request)
        if guarded.raises:
            response.read()
            _raise_status(library, response)
        return response

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(exc_type, exc_value, traceback)

    async def __aenter__(self) -> NoReturn:
        refuse_client(self._family.library, SYNC)

    async def handle_async_request(self, request: Any) -> NoReturn:
        refuse_client(self._family.library, SYNC)

    def __repr__(self) -> str:
        return f"RetryTransport({self._guard!r})"


class AsyncRetries:
    """Does the same for async clients, under asyncio and trio. An attempt whose time is up is cancelled."""

    _family: HttpxFamily
    _guard: HttpGuard[Any]
    _transport: Any

    async def handle_async_request(self, request: Any) -> Any:
        library, guard = self._family.library, self._guard
        guarded, rewind = _begin(self._family, guard, request)
        outgoing = _outgoing(library, guarded, request, request.extensions.get("timeout") or {})
        limit = _options(request).get("buffer_limit", guard.buffer_limit)

        async def send() -> Any:
            rewind()
            outgoing.headers.update(guarded.headers_of_attempt())
            response = await self._transport.handle_async_request(outgoing)
            wanted = bytes_to_read(response.headers, limit, failed=guard.refuses(response))
            if wanted and not response.is_stream_consumed:
                await read_ahead_async(library, response, wanted)
            return response

        try:
            response = await exchange_async(guarded, send, library.Response.aclose)
        except library.RequestError as error:
            error.request = request
            raise
        _show_report(response, request)
        if guarded.raises:
            await response.aread()
            _raise_status(library, response)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)

    def __enter__(self) -> NoReturn:
        refuse_client(self._family.library, ASYNC)

    def handle_request(self, request: Any) -> NoReturn:
        refuse_client(self._family.library, ASYNC)

    def __repr__(self) -> str:
        return f"AsyncRetryTransport({self._guard!r})"


def _begin(family: HttpxFamily, guard: HttpGuard[Any], request: Any) -> tuple[GuardedRequest[Any], Rewind]:
    path, _, query = request.url.raw_path.partition(b"?")
    stream = request.stream
    rewind = rewind_of_stream(family.library, stream)
    guarded = guard.begin(
        method=request.method,
        host=request.url.netloc.decode("ascii"),
        path=path.decode("ascii"),
        headers=request.headers,
        content=(query, b"".join(stream) if isinstance(stream, family.library.ByteStream) else None),
        replayable=rewind is not None,
        idempotent=_options(request).get("idempotent"),
    )
    return guarded, rewind or no_rewind


def _outgoing(library: Any, guarded: GuardedRequest[Any], request: Any, timeout: dict[str, float | None]) -> Any:
    """Return a copy to send. If the caller sends the original again, that is a new request with a new key."""
    outgoing = library.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "timeout": timeout},
    )
    outgoing.headers.update(guarded.new_headers)
    return outgoing


def _options(request: Any) -> dict[str, Any]:
    options = request.extensions.get(ATTRIBUTE)
    if options is None:
        return {}
    if not isinstance(options, dict) or not options.keys() <= {"idempotent", "buffer_limit"}:
        raise TypeError(
            f'extensions["redrive"]: {options!r} is not allowed; use {{"idempotent": True, "buffer_limit": 0}}'
        )
    return options


def _show_report(response: Any, request: Any) -> None:
    """Add the report to the response's extensions."""
    response.request = request
    report = report_of(response)
    if report is not None:
        response.extensions[ATTRIBUTE] = report


def _raise_status(library: Any, response: Any) -> None:
    try:
        response.raise_for_status()
    except library.HTTPStatusError as error:
        carry_over(response, error)
        raise
    # The policy rejects the response, although its status is not an error for the library.
    rejected = ResultRejectedError(response)
    carry_over(response, rejected)
    raise rejected


class _TimeLimits(dict[str, float | None]):
    """The request's own timeouts, each limited to the time left when it is read."""

    def __init__(self, own: dict[str, float | None], time_left: Callable[[], float | None]) -> None:
        super().__init__(own)
        self._time_left = time_left

    def get(self, name: str, default: Any = None) -> Any:
        own, left = super().get(name, default), self._time_left()
        if left is None:
            return own
        return left if own is None else min(own, left)

    def __getitem__(self, name: str) -> Any:
        return self.get(name)
