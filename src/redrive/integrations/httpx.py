"""Retries for httpx, as transports for its clients (`pip install 'redrive[httpx]'`).

client = httpx.Client(transport=RetryTransport(attempts=5))
client = httpx.AsyncClient(transport=AsyncRetryTransport(dependency="per-host", idempotency_keys=True))

When the retries end with a response, the transport returns it, and `redrive.report_of(response)` (also
`response.extensions["redrive"]`) says why they ended. A single request can override the settings of its transport:
`client.post(url, extensions={"redrive": {"idempotent": True, "buffer_limit": 0}})`.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Unpack

try:
    import httpx
except ImportError as error:
    raise ImportError("retries for httpx need the extra 'httpx': pip install 'redrive[httpx]'") from error

from redrive import errors
from redrive.errors import ResultRejectedError
from redrive.integrations.http_client.body_buffering import bytes_to_read
from redrive.integrations.http_client.exchange import carry_over, exchange, exchange_async
from redrive.integrations.http_client.http_guard import (
    IDEMPOTENCY_KEY,
    AdapterSettings,
    ClientLibrary,
    GuardedRequest,
    HttpGuard,
)
from redrive.integrations.http_client.httpx_streams import read_ahead, read_ahead_async, rewind_of_stream
from redrive.integrations.http_client.rewinding import Rewind, no_rewind
from redrive.policies.policy import Policy
from redrive.policies.report import ATTRIBUTE, report_of

__all__ = ["AsyncRetryTransport", "AttemptTimeoutError", "CircuitOpenError", "DeadlineExceededError", "RetryTransport"]


class AttemptTimeoutError(errors.AttemptTimeoutError, httpx.TimeoutException):
    """An attempt took longer than its `attempt_timeout`; caught as httpx.TimeoutException too."""


class DeadlineExceededError(errors.DeadlineExceededError, httpx.TimeoutException):
    """The deadline passed while an attempt was running; caught as httpx.TimeoutException too."""


class CircuitOpenError(errors.CircuitOpenError, httpx.TransportError):
    """The request was not sent because the circuit is open; caught as httpx.TransportError too."""


HTTPX: ClientLibrary[httpx.Response] = ClientLibrary(
    status_of=lambda response: response.status_code,
    headers_of=lambda response: response.headers,
    timeouts=(httpx.TimeoutException,),
    attempt_timeout=AttemptTimeoutError,
    deadline_exceeded=DeadlineExceededError,
    circuit_open=CircuitOpenError,
)


class RetryTransport(httpx.BaseTransport):
    """Sends each request of an `httpx.Client` through `transport` until it succeeds or the policy gives up.

    The timeouts of a request are limited to the time left, so that the deadline holds. Operations without a timeout in
    httpx, such as name resolution, cannot be interrupted.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        /,
        *,
        transport: httpx.BaseTransport | None = None,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        self._guard = HttpGuard(HTTPX, policy, **settings)
        self._transport = httpx.HTTPTransport() if transport is None else transport
        _check_single_owner(self._transport)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        guarded, rewind = _begin(self._guard, request)
        limits = _TimeLimits(request.extensions.get("timeout") or {}, guarded.time_left)
        outgoing = _outgoing(guarded, request, limits)
        limit = _options(request).get("buffer_limit", self._guard.buffer_limit)

        def send() -> httpx.Response:
            rewind()
            response = self._transport.handle_request(outgoing)
            wanted = bytes_to_read(response.headers, limit, failed=self._guard.refuses(response))
            if wanted and not response.is_stream_consumed:
                read_ahead(response, wanted, guarded.check_time)
            return response

        try:
            response = exchange(guarded, send, httpx.Response.close)
        except httpx.RequestError as error:
            error.request = request
            raise
        _show_report(response, request)
        if guarded.raises:
            response.read()
            _raise_status(response)
        return response

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "RetryTransport":
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(exc_type, exc_value, traceback)

    def __repr__(self) -> str:
        return f"RetryTransport({self._guard!r})"


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """Does the same for `httpx.AsyncClient`, under asyncio and trio. An attempt whose time is up is cancelled."""

    def __init__(
        self,
        policy: Policy | None = None,
        /,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        self._guard = HttpGuard(HTTPX, policy, **settings)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport
        _check_single_owner(self._transport)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        guarded, rewind = _begin(self._guard, request)
        outgoing = _outgoing(guarded, request, request.extensions.get("timeout") or {})
        limit = _options(request).get("buffer_limit", self._guard.buffer_limit)

        async def send() -> httpx.Response:
            rewind()
            response = await self._transport.handle_async_request(outgoing)
            wanted = bytes_to_read(response.headers, limit, failed=self._guard.refuses(response))
            if wanted and not response.is_stream_consumed:
                await read_ahead_async(response, wanted)
            return response

        try:
            response = await exchange_async(guarded, send, httpx.Response.aclose)
        except httpx.RequestError as error:
            error.request = request
            raise
        _show_report(response, request)
        if guarded.raises:
            await response.aread()
            _raise_status(response)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> "AsyncRetryTransport":
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)

    def __repr__(self) -> str:
        return f"AsyncRetryTransport({self._guard!r})"


def _begin(guard: HttpGuard[httpx.Response], request: httpx.Request) -> tuple[GuardedRequest[httpx.Response], Rewind]:
    path, _, query = request.url.raw_path.partition(b"?")
    stream = request.stream
    rewind = rewind_of_stream(stream)
    guarded = guard.begin(
        method=request.method,
        host=request.url.netloc.decode("ascii"),
        path=path.decode("ascii"),
        headers=request.headers,
        content=(query, b"".join(stream) if isinstance(stream, httpx.ByteStream) else None),
        replayable=rewind is not None,
        idempotent=_options(request).get("idempotent"),
    )
    return guarded, rewind or no_rewind


def _outgoing(
    guarded: GuardedRequest[httpx.Response], request: httpx.Request, timeout: dict[str, float | None]
) -> httpx.Request:
    """Return a copy to send. If the caller sends the original again, that is a new request with a new key."""
    outgoing = httpx.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "timeout": timeout},
    )
    if guarded.new_key is not None:
        outgoing.headers[IDEMPOTENCY_KEY] = guarded.new_key
    return outgoing


def _options(request: httpx.Request) -> dict[str, Any]:
    options = request.extensions.get(ATTRIBUTE)
    if options is None:
        return {}
    if not isinstance(options, dict) or not options.keys() <= {"idempotent", "buffer_limit"}:
        raise TypeError(
            f'extensions["redrive"]: {options!r} is not allowed; use {{"idempotent": True, "buffer_limit": 0}}'
        )
    return options


def _show_report(response: httpx.Response, request: httpx.Request) -> None:
    """Add the report to the response's extensions."""
    response.request = request
    report = report_of(response)
    if report is not None:
        response.extensions[ATTRIBUTE] = report


def _raise_status(response: httpx.Response) -> None:
    try:
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        carry_over(response, error)
        raise
    # The policy rejects the response, although its status is not an error for the library.
    rejected = ResultRejectedError(response)
    carry_over(response, rejected)
    raise rejected


def _check_single_owner(transport: object) -> None:
    if getattr(getattr(transport, "_pool", None), "_retries", 0):
        raise ValueError("the inner transport retries too; build it with retries=0, since RetryTransport does")


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
