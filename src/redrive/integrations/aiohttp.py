"""Retries for aiohttp, as a client middleware (aiohttp 3.12 or newer; `pip install 'redrive[aiohttp]'`).

session = aiohttp.ClientSession(middlewares=(retry_middleware(attempts=5, dependency="per-host"),))

When the retries end on a response, that response is returned, and `redrive.report_of(response)` says why they ended.
The session's own timeouts hold as they always do: `connect` and `sock_read` for each attempt, `total` for all of them.
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
    IDEMPOTENCY_KEY,
    IDEMPOTENT_METHODS,
    AdapterSettings,
    ClientLibrary,
    HttpGuard,
)
from redrive.policies.policy import Policy
from redrive.policies.report import attach, report_of

__all__ = ["AttemptTimeoutError", "CircuitOpenError", "DeadlineExceededError", "RetryMiddleware", "retry_middleware"]


class AttemptTimeoutError(errors.AttemptTimeoutError, aiohttp.ServerTimeoutError):
    """An attempt took longer than its `attempt_timeout`; aiohttp code catches it as a ServerTimeoutError."""


class DeadlineExceededError(errors.DeadlineExceededError, aiohttp.ServerTimeoutError):
    """The deadline came while an attempt was running; aiohttp code catches it as a ServerTimeoutError."""


class CircuitOpenError(errors.CircuitOpenError, aiohttp.ClientConnectionError):
    """The request was not sent: the circuit is open; aiohttp code catches it as a ClientConnectionError."""


class _SessionTimeIsUp(errors.Permanent):
    """The session's total timeout is over, which covers all the attempts."""


AIOHTTP: ClientLibrary[aiohttp.ClientResponse] = ClientLibrary(
    status_of=lambda response: response.status,
    headers_of=lambda response: response.headers,
    timeouts=(TimeoutError,),
    attempt_timeout=AttemptTimeoutError,
    deadline_exceeded=DeadlineExceededError,
    circuit_open=CircuitOpenError,
)


def retry_middleware(policy: Policy | None = None, /, **settings: Unpack[AdapterSettings]) -> "RetryMiddleware":
    """For `ClientSession(middlewares=...)`: send each request until it succeeds or the policy gives up.

    Put it first: what comes after it runs in every attempt.
    """
    return RetryMiddleware(policy, **settings)


class RetryMiddleware:
    """What `retry_middleware` makes."""

    def __init__(self, policy: Policy | None = None, /, **settings: Unpack[AdapterSettings]) -> None:
        self._guard = HttpGuard(AIOHTTP, policy, **settings)
        self._ended = _EndedCalls()

    async def __call__(self, request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        if (ended := self._ended.take(request)) is not None:
            raise ended
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
        if guarded.new_key is not None:
            request.headers[IDEMPOTENCY_KEY] = guarded.new_key

        async def send() -> aiohttp.ClientResponse:
            if not guarded.first_attempt:
                # The last attempt's writer may still be at work on the body.
                await request.close()
            try:
                response = await handler(request)
                wanted = bytes_to_read(response.headers, guard.buffer_limit, failed=guard.refuses(response))
                if wanted:
                    await read_ahead(response, wanted)
            except TimeoutError as error:
                if _session_time_is_up(request):
                    raise _SessionTimeIsUp("the session's total timeout is over") from error
                raise
            finally:
                if sent_once(request.body):
                    guarded.call.replayable = False
            return response

        try:
            response = await exchange_async(guarded, send, _release)
        except _SessionTimeIsUp as error:
            raise _as_aiohttp_says_it(error) from error.__cause__
        except aiohttp.ClientError as error:
            self._ended.remember(request, error)
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
    # Refused by the policy, though the library takes its status for a success.
    rejected = ResultRejectedError(response)
    carry_over(response, rejected)
    raise rejected


def _session_time_is_up(request: aiohttp.ClientRequest) -> bool:
    # Not public, but the only trace of the total timeout: what follows it would be sent, and given up at once.
    timer = getattr(request, "_timer", None)
    try:
        if timer is not None:
            timer.assert_timeout()
    except TimeoutError:
        return True
    return False


def _as_aiohttp_says_it(error: _SessionTimeIsUp) -> TimeoutError:
    timeout = TimeoutError(str(error))
    report = report_of(error)
    if report is not None:
        step = "allow a longer ClientTimeout(total=...): it covers all the attempts and the waits between them"
        attach(timeout, msgspec.structs.replace(report, next_step=step))
    return timeout


class _EndedCalls:
    """How calls ended that aiohttp is about to make again.

    After a lost connection a session sends an idempotent request once more by itself, through the middlewares again.
    That would be a second retry owner. The repetition is recognised, and ends as its call did.
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
    # One list for all the requests that a single `session.get(...)` makes; aiohttp has no public name for that.
    return getattr(request, "_traces", None)
