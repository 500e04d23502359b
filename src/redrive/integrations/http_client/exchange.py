"""Carry one request through its attempts: no response outlives its attempt, and the last one is the answer."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redrive.calls import async_driver, sync_driver
from redrive.calls.vetoes import carry_veto
from redrive.errors import AttemptTimeoutError, CircuitOpenError, DeadlineExceededError, ResultRejectedError
from redrive.integrations.http_client.http_guard import GuardedRequest, advice
from redrive.policies.report import ATTRIBUTE, attach, report_of

R = TypeVar("R")
OwnError = AttemptTimeoutError | DeadlineExceededError | CircuitOpenError
OWN_ERRORS = (AttemptTimeoutError, DeadlineExceededError, CircuitOpenError)


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
    except ResultRejectedError as rejected:
        response = _last_response(request, rejected)
    except BaseException as error:
        while latest:
            close(latest.pop())
        if isinstance(error, OWN_ERRORS):
            raise _in_the_clients_words(request, error) from error.__cause__
        _advise(error)
        raise
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
    except ResultRejectedError as rejected:
        response = _last_response(request, rejected)
    except BaseException as error:
        while latest:
            await close(latest.pop())
        if isinstance(error, OWN_ERRORS):
            raise _in_the_clients_words(request, error) from error.__cause__
        _advise(error)
        raise
    finally:
        request.over()
    return response


def carry_over(response: object, error: BaseException) -> None:
    """Put on a status error what is known of its response: the report, and what must not be repeated."""
    report = report_of(response)
    if report is not None:
        attach(error, report)
    carry_veto(response, error)


def _last_response(request: GuardedRequest[R], rejected: ResultRejectedError) -> Any:
    request.ended_on_a_response()
    response = rejected.result
    report = report_of(rejected)
    if report is not None:
        setattr(response, ATTRIBUTE, advice(report))
    return response


def _in_the_clients_words(request: GuardedRequest[Any], error: OwnError) -> Exception:
    """redrive's own error as one that the users of the client library catch too."""
    client = request.guard.client
    said: OwnError
    if isinstance(error, CircuitOpenError):
        said = client.circuit_open(error.dependency, error.retry_in)
    elif isinstance(error, AttemptTimeoutError):
        said = client.attempt_timeout(error.seconds)
    else:
        said = client.deadline_exceeded(error.seconds)
        said.args = error.args
    if (report := report_of(error)) is not None:
        attach(said, advice(report))
    return said


def _advise(error: BaseException) -> None:
    report = report_of(error)
    if report is not None:
        attach(error, advice(report))
