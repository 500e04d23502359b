"""Retries for requests, as an adapter for its sessions (`pip install 'redrive[requests]'`).

session = requests.Session()
session.mount("https://", RetryAdapter(attempts=5, dependency="per-host"))

When the retries end with a response, the adapter returns it, and `redrive.report_of(response)` says why they ended.
With `stream=True` the body of an accepted response is not read here, and reading it is not retried.
"""

from typing import Any, Unpack
from urllib.parse import urlsplit

try:
    import requests
    from requests.adapters import DEFAULT_POOLBLOCK, DEFAULT_POOLSIZE, HTTPAdapter
    from urllib3.util import Retry, Timeout
except ImportError as error:
    raise ImportError("retries for requests need the extra 'requests': pip install 'redrive[requests]'") from error

from redrive import errors
from redrive.errors import ResultRejectedError
from redrive.integrations.http_client.body_buffering import bytes_to_read
from redrive.integrations.http_client.exchange import carry_over, exchange
from redrive.integrations.http_client.http_guard import (
    AdapterSettings,
    ClientLibrary,
    GuardedRequest,
    HttpGuard,
)
from redrive.integrations.http_client.rewinding import rewind_of
from redrive.policies.policy import Policy

__all__ = ["AttemptTimeoutError", "CircuitOpenError", "DeadlineExceededError", "RetryAdapter"]


class AttemptTimeoutError(errors.AttemptTimeoutError, requests.Timeout):
    """An attempt took longer than its `attempt_timeout`; caught as requests.Timeout too."""

    request = None
    response = None


class DeadlineExceededError(errors.DeadlineExceededError, requests.Timeout):
    """The deadline passed while an attempt was running; caught as requests.Timeout too."""

    request = None
    response = None


class CircuitOpenError(errors.CircuitOpenError, requests.ConnectionError):
    """The request was not sent because the circuit is open; caught as requests.ConnectionError too."""


REQUESTS: ClientLibrary[requests.Response] = ClientLibrary(
    status_of=lambda response: response.status_code,
    headers_of=lambda response: response.headers,
    # requests raises a ConnectionError for a timeout while reading the body.
    timeouts=(requests.Timeout, requests.ConnectionError),
    attempt_timeout=AttemptTimeoutError,
    deadline_exceeded=DeadlineExceededError,
    circuit_open=CircuitOpenError,
)


class RetryAdapter(HTTPAdapter):
    """Sends each request of a session until it succeeds or the policy gives up.

    The timeouts of a request are limited to the time left, so that the deadline holds. Operations without a timeout in
    requests (name resolution, a body that arrives byte by byte) cannot be interrupted. urllib3's own retries are off: a
    call has one retry owner.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        /,
        *,
        pool_connections: int = DEFAULT_POOLSIZE,
        pool_maxsize: int = DEFAULT_POOLSIZE,
        pool_block: bool = DEFAULT_POOLBLOCK,
        max_retries: int | Retry = 0,
        **settings: Unpack[AdapterSettings],
    ) -> None:
        if max_retries != 0:
            raise ValueError(
                "max_retries would make urllib3 retry besides the policy; remove it, and use attempts=... instead"
            )
        self._guard = HttpGuard(REQUESTS, policy, **settings)
        super().__init__(pool_connections=pool_connections, pool_maxsize=pool_maxsize, pool_block=pool_block)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        guard = self._guard
        rewind = rewind_of(request.body)
        guarded = _begin(guard, request, rewind is not None)
        outgoing = request
        if guarded.new_headers or guard.sends_ownership:
            # A copy: if the caller sends the original again, that is a new request with a new key.
            outgoing = request.copy()
            outgoing.headers.update(guarded.new_headers)
        send_once = super().send

        def send() -> requests.Response:
            if rewind is not None:
                rewind()
            outgoing.headers.update(guarded.headers_of_attempt())
            response = send_once(outgoing, stream, _clipped(timeout, guarded.time_left()), verify, cert, proxies)
            failed = guard.refuses(response)
            if not stream or (failed and bytes_to_read(response.headers, guard.buffer_limit, failed=failed)):
                # Reading to the end releases the connection.
                _ = response.content
            return response

        try:
            response = exchange(guarded, send, requests.Response.close)
        except requests.RequestException as error:
            error.request = request
            raise
        if guarded.raises:
            _raise_status(response)
        return response

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a RetryAdapter cannot be pickled, because its circuits and budgets belong to this process; make a new one"
        )

    def __repr__(self) -> str:
        return f"RetryAdapter({self._guard!r})"


def _begin(
    guard: HttpGuard[requests.Response], request: requests.PreparedRequest, replayable: bool
) -> GuardedRequest[requests.Response]:
    url = urlsplit(request.url or "")
    return guard.begin(
        method=request.method or "GET",
        host=url.netloc.rpartition("@")[2].lower(),
        path=url.path,
        headers=request.headers,
        content=(url.query, request.body if isinstance(request.body, bytes | str) else None),
        replayable=replayable,
    )


def _clipped(timeout: Any, left: float | None) -> Any:
    """Return the request's own timeouts, limited to the time left to the attempt."""
    if left is None:
        return timeout
    if isinstance(timeout, Timeout):
        clipped = timeout.clone()
    else:
        connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        clipped = Timeout(connect=connect, read=read)
    clipped.total = min(clipped.total, left) if isinstance(clipped.total, int | float) else left
    return clipped


def _raise_status(response: requests.Response) -> None:
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        carry_over(response, error)
        raise
    # The policy rejects the response, although its status is not an error for the library.
    rejected = ResultRejectedError(response)
    carry_over(response, rejected)
    raise rejected
