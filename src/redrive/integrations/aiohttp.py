"""Retries for aiohttp, as a client middleware (aiohttp 3.12 or newer; `pip install 'redrive[aiohttp]'`).

session = aiohttp.ClientSession(middlewares=(retry_middleware(attempts=5, dependency="per-host"),))

When the retries end with a response, the middleware returns it, and `redrive.report_of(response)` says why they ended.
The session's own timeouts still apply: `connect` and `sock_read` to each attempt, `total` to all of them together.
"""

import asyncio
from typing import Any, Unpack
from weakref import WeakKeyDictionary

try:
    import aiohttp
    from aiohttp.client_middlewares import ClientHandlerType
except ImportError as error:
    raise ImportError("retries for aiohttp need aiohttp 3.12 or newer: pip install 'redrive[aiohttp]'") from error

import msgspec

from redrive import errors
from redrive.errors import ResultRejectedError
from redrive.integrations.http_client.aiohttp_bodies import content_of, read_ahead, sent_once
from redrive.integrations.http_client.body_buffering import bytes_to_read
from redrive.integrations.http_client.exchange import carry_over, exchange_async
from redrive.integrations.http_client.http_guard import (
    IDEMPOTENT_METHODS,
    AdapterSettings,
    ClientLibrary,
    HttpGuard,
)
from redrive.policies.policy import Policy
from redrive.policies.report import attach, report_of

__all__ = ["AttemptTimeoutError", "CircuitOpenError", "DeadlineExceededError", "RetryMiddleware", "retry_middleware"]


class AttemptTimeoutError(errors.AttemptTimeoutError, aiohttp.ServerTimeoutError):
    """An attempt took longer than its `attempt_timeout`; caught as aiohttp.ServerTimeoutError too."""


class DeadlineExceededError(errors.DeadlineExceededError, aiohttp.ServerTimeoutError):
    """The deadline passed while an attempt was running; caught as aiohttp.ServerTimeoutError too."""


class CircuitOpenError(errors.CircuitOpenError, aiohttp.ClientConnectionError):
    """The request was not sent because the circuit is open; caught as aiohttp.ClientConnectionError too."""


class _SessionTimeout(errors.Permanent):
    """The session's total timeout, which covers all attempts, has expired."""


AIOHTTP: ClientLibrary[aiohttp.ClientResponse] = ClientLibrary(
    status_of=lambda response: response.status,
    headers_of=lambda response: response.headers,
    timeouts=(TimeoutError,),
    attempt_timeout=AttemptTimeoutError,
    deadline_exceeded=DeadlineExceededError,
    circuit_open=CircuitOpenError,
)


def retry_middleware(policy: Policy | None = None, /, **settings: Unpack[AdapterSettings]) -> "RetryMiddleware":
    """Return a middleware for `ClientSession(middlewares=...)` that retries each request as the policy says.

    Put it first: the middlewares after it run in every attempt.
    """
    return RetryMiddleware(policy, **settings)


class RetryMiddleware:
    """Sends each request of a session until it succeeds or the policy gives up; made by `retry_middleware`."""

    def __init__(self, policy: Policy | None = None, /, **settings: Unpack[AdapterSettings]) -> None:
        self._guard = HttpGuard(AIOHTTP, policy, **settings)
        self._failed = _FailedRequests()

    async def __call__(self, request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        if (earlier := self._failed.take(request)) is not None:
            raise earlier
        guard = self._guard
        url = request.url
        guarded = guard.begin(
            method=request.method,
            host=url.raw_authority.rpartition("@")[2],
            path=url.raw_path,
            headers=request.headers,
            content=(url.raw_query_string, await content_of(request.body)),
            replayable=not sent_once(request.body),
        )
        request.headers.update(guarded.new_headers)

        async def send() -> aiohttp.ClientResponse:
            if not guarded.first_attempt:
                # The last attempt may still be writing the body.
                await request.close()
            request.headers.update(guarded.headers_of_attempt())
            try:
                response = await handler(request)
                wanted = bytes_to_read(response.headers, guard.buffer_limit, failed=guard.refuses(response))
                if wanted:
                    await read_ahead(response, wanted)
            except TimeoutError as error:
                if _session_timed_out(request):
                    raise _SessionTimeout("the session's total timeout has expired") from error
                raise
            finally:
                if sent_once(request.body):
                    guarded.call.replayable = False
            return response

        try:
            response = await exchange_async(guarded, send, _release)
        except _SessionTimeout as error:
            raise _as_timeout_error(error) from error.__cause__
        except aiohttp.ClientError as error:
            self._failed.remember(request, error)
            raise
        if guarded.raises:
            _raise_status(response)
        return response

    def __repr__(self) -> str:
        return f"retry_middleware({self._guard!r})"


async def _release(response: aiohttp.ClientResponse) -> None:
    response.release()


def _raise_status(response: aiohttp.ClientResponse) -> None:
    try:
        response.raise_for_status()
    except aiohttp.ClientResponseError as error:
        carry_over(response, error)
        raise
    # The policy rejects the response, although its status is not an error for the library.
    rejected = ResultRejectedError(response)
    carry_over(response, rejected)
    raise rejected


def _session_timed_out(request: aiohttp.ClientRequest) -> bool:
    # Private, but the only sign of the total timeout. Another attempt would be sent, and then cancelled at once.
    timer = getattr(request, "_timer", None)
    try:
        if timer is not None:
            timer.assert_timeout()
    except TimeoutError:
        return True
    return False


def _as_timeout_error(error: _SessionTimeout) -> TimeoutError:
    timeout = TimeoutError(str(error))
    report = report_of(error)
    if report is not None:
        step = "use a longer ClientTimeout(total=...): it covers all attempts and the waits between them"
        attach(timeout, msgspec.structs.replace(report, next_step=step))
    return timeout


class _FailedRequests:
    """The errors of requests that aiohttp is about to send again.

    After a lost connection, a session itself repeats an idempotent request once, through the middlewares. That would
    be a second retry owner, so the repetition is recognised and fails with the same error.
    """

    def __init__(self) -> None:
        self._by_task: WeakKeyDictionary[asyncio.Task[Any], tuple[object, Exception]] = WeakKeyDictionary()

    def remember(self, request: aiohttp.ClientRequest, error: Exception) -> None:
        task, mark = asyncio.current_task(), _mark_of(request)
        lost = isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError)
        connected = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        if lost and connected and request.method in IDEMPOTENT_METHODS and task is not None and mark is not None:
            self._by_task[task] = mark, error

    def take(self, request: aiohttp.ClientRequest) -> Exception | None:
        task = asyncio.current_task()
        mark, error = self._by_task.pop(task, (None, None)) if task is not None else (None, None)
        return error if mark is not None and mark is _mark_of(request) else None


def _mark_of(request: aiohttp.ClientRequest) -> object:
    # The same list object for all requests of one `session.get(...)`; aiohttp has no public way to tell.
    return getattr(request, "_traces", None)
