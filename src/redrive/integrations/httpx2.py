"""Retries for httpx2, as transports for its clients (`pip install 'redrive[httpx2]'`).

client = httpx2.Client(transport=RetryTransport(attempts=5))
client = httpx2.AsyncClient(transport=AsyncRetryTransport(dependency="per-host", idempotency_keys=True))

When the retries end with a response, the transport returns it, and `redrive.report_of(response)` (also
`response.extensions["redrive"]`) says why they ended. A single request can override the settings of its transport:
`client.post(url, extensions={"redrive": {"idempotent": True, "buffer_limit": 0}})`.
"""

from typing import Unpack

try:
    import httpx2
except ImportError as error:
    raise ImportError("retries for httpx2 need the extra 'httpx2': pip install 'redrive[httpx2]'") from error

from redrive import errors
from redrive.integrations.http_client.http_guard import AdapterSettings, ClientLibrary, HttpGuard
from redrive.integrations.http_client.httpx_transports import (
    AsyncRetries,
    HttpxFamily,
    SyncRetries,
)
from redrive.integrations.http_client.inner_transport import ASYNC, SYNC, inner_transport
from redrive.policies.policy import Policy

__all__ = ["AsyncRetryTransport", "AttemptTimeoutError", "CircuitOpenError", "DeadlineExceededError", "RetryTransport"]


class AttemptTimeoutError(errors.AttemptTimeoutError, httpx2.TimeoutException):
    """An attempt took longer than its `attempt_timeout`; caught as httpx2.TimeoutException too."""


class DeadlineExceededError(errors.DeadlineExceededError, httpx2.TimeoutException):
    """The deadline passed while an attempt was running; caught as httpx2.TimeoutException too."""


class CircuitOpenError(errors.CircuitOpenError, httpx2.TransportError):
    """The request was not sent because the circuit is open; caught as httpx2.TransportError too."""


HTTPX2 = HttpxFamily(
    httpx2,
    ClientLibrary(
        status_of=lambda response: response.status_code,
        headers_of=lambda response: response.headers,
        timeouts=(httpx2.TimeoutException,),
        attempt_timeout=AttemptTimeoutError,
        deadline_exceeded=DeadlineExceededError,
        circuit_open=CircuitOpenError,
    ),
)


class RetryTransport(SyncRetries, httpx2.BaseTransport):
    """Sends each request of `httpx2.Client` through `transport` until it succeeds or the policy gives up.

    The timeouts of a request are limited to the time left, so that the deadline holds. Operations without a timeout in
    httpx2, such as name resolution, cannot be interrupted.
    """

    _family = HTTPX2

    def __init__(
        self,
        policy: Policy | None = None,
        /,
        *,
        transport: httpx2.BaseTransport | None = None,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        self._transport = inner_transport(httpx2, SYNC, transport, policy)
        self._guard = HttpGuard(HTTPX2.client, policy, **settings)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = super().handle_request(request)
        return response


class AsyncRetryTransport(AsyncRetries, httpx2.AsyncBaseTransport):
    """Does the same for `httpx2.AsyncClient`, under asyncio and trio. An attempt whose time is up is cancelled."""

    _family = HTTPX2

    def __init__(
        self,
        policy: Policy | None = None,
        /,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        self._transport = inner_transport(httpx2, ASYNC, transport, policy)
        self._guard = HttpGuard(HTTPX2.client, policy, **settings)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = await super().handle_async_request(request)
        return response
