"""Carry one request through its attempts: no response outlives its attempt, and the last one is the answer."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redrive.calls import async_driver, sync_driver
from redrive.calls.adapters.http_guard import GuardedRequest, advice
from redrive.calls.report import ATTRIBUTE, attach, report_of
from redrive.failures.signals import AttemptTimeout, DeadlineExceeded, ResultRejected
from redrive.resilience.circuit import CircuitOpen

R = TypeVar("R")


def exchange(request: GuardedRequest[R], send: Callable[[], R], close: Callable[[R], Any]) -> R:
    """Send until an answer is accepted, or until the policy gives up.

    Then the last response is returned with its report, or the last error raised. `send` makes one attempt and keeps
    to `request.time_left()` by itself; `close` gives back the connection of a response that is not returned.
    """
    latest: list[R] = []
    request.call.self_limiting = True

    def attempt() -> R:
        while latest:
            close(latest.pop())
        try:
            response = send()
        except request.guard.client.timeouts:
            request.check_time()
            raise
        latest.append(response)
        return response

    try:
        response: R = sync_driver.carry_out(request.call, attempt, (), {})
    except ResultRejected as rejected:
        response = _last_response(rejected)
    except BaseException as error:
        while latest:
            close(latest.pop())
        said = _in_the_clients_words(request, error)
        if said is error:
            raise
        raise said from error.__cause__
    finally:
        request.over()
    return response


async def exchange_async(
    request: GuardedRequest[R], send: Callable[[], Awaitable[R]], close: Callable[[R], Awaitable[Any]]
) -> R:
    """The same for asyncio and trio, where the driver cuts an attempt whose time is up."""
    latest: list[R] = []

    async def attempt() -> R:
        while latest:
            await close(latest.pop())
        response = await send()
        latest.append(response)
        return response

    try:
        response: R = await async_driver.carry_out(request.call, attempt, (), {})
    except ResultRejected as rejected:
        response = _last_response(rejected)
    except BaseException as error:
        while latest:
            await close(latest.pop())
        said = _in_the_clients_words(request, error)
        if said is error:
            raise
        raise said from error.__cause__
    finally:
        request.over()
    return response


def _last_response(rejected: ResultRejected) -> Any:
    response = rejected.result
    report = report_of(rejected)
    if report is not None:
        setattr(response, ATTRIBUTE, advice(report))
    return response


def _in_the_clients_words(request: GuardedRequest[Any], error: BaseException) -> BaseException:
    """The error to raise: the library's own as it is; redrive's as one that the library's users catch too."""
    said, report = error, report_of(error)
    if isinstance(error, CircuitOpen):
        said = request.guard.client.circuit_open(error.dependency, error.retry_in)
    elif isinstance(error, AttemptTimeout):
        said = request.guard.client.attempt_timeout(error.seconds)
    elif isinstance(error, DeadlineExceeded):
        said = request.guard.client.deadline_exceeded(error.seconds)
    if report is not None:
        attach(said, advice(report))
    return said
