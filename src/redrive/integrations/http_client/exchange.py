"""Sends one request until it succeeds or the policy gives up. Every response but the last is closed."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redrive.calls import async_driver, sync_driver
from redrive.calls.vetoes import carry_veto
from redrive.errors import AttemptTimeoutError, CircuitOpenError, DeadlineExceededError, ResultRejectedError
from redrive.integrations.http_client.http_guard import GuardedRequest, with_http_advice
from redrive.policies.report import ATTRIBUTE, attach, report_of

R = TypeVar("R")
OwnError = AttemptTimeoutError | DeadlineExceededError | CircuitOpenError
OWN_ERRORS = (AttemptTimeoutError, DeadlineExceededError, CircuitOpenError)


def exchange(request: GuardedRequest[R], send: Callable[[], R], close: Callable[[R], Any]) -> R:
    """Send the request until a response is accepted or the policy gives up.

    Returns the last response with its report, or raises the last error. `send` makes one attempt and must respect
    `request.time_left()` itself; `close` releases the connection of a response that is not returned.
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
        response: R = sync_driver.run_call(request.call, attempt).unwrap()
    except ResultRejectedError as rejected:
        response = _last_response(request, rejected)
    except BaseException as error:
        while latest:
            close(latest.pop())
        if isinstance(error, OWN_ERRORS):
            raise _as_client_error(request, error) from error.__cause__
        _add_http_advice(error)
        raise
    finally:
        request.finish()
    return response


async def exchange_async(
    request: GuardedRequest[R], send: Callable[[], Awaitable[R]], close: Callable[[R], Awaitable[Any]]
) -> R:
    """Do the same under asyncio and trio, where the driver cancels an attempt whose time is up."""
    latest: list[R] = []

    async def attempt() -> R:
        while latest:
            await close(latest.pop())
        response = await send()
        latest.append(response)
        return response

    try:
        response: R = (await async_driver.run_call(request.call, attempt)).unwrap()
    except ResultRejectedError as rejected:
        response = _last_response(request, rejected)
    except BaseException as error:
        while latest:
            await close(latest.pop())
        if isinstance(error, OWN_ERRORS):
            raise _as_client_error(request, error) from error.__cause__
        _add_http_advice(error)
        raise
    finally:
        request.finish()
    return response


def carry_over(response: object, error: BaseException) -> None:
    """Copy the report and any veto from a response to the status error that is raised for it."""
    report = report_of(response)
    if report is not None:
        attach(error, report)
    carry_veto(response, error)


def _last_response(request: GuardedRequest[R], rejected: ResultRejectedError) -> Any:
    request.end_with_response()
    response = rejected.result
    report = report_of(rejected)
    if report is not None:
        setattr(response, ATTRIBUTE, with_http_advice(report))
    return response


def _as_client_error(request: GuardedRequest[Any], error: OwnError) -> Exception:
    """Convert redrive's error to its subclass that code written for the client library catches too."""
    client = request.guard.client
    converted: OwnError
    if isinstance(error, CircuitOpenError):
        converted = client.circuit_open(error.dependency, error.retry_in, recovering=error.recovering)
    elif isinstance(error, AttemptTimeoutError):
        converted = client.attempt_timeout(error.seconds)
    else:
        converted = client.deadline_exceeded(error.seconds)
        converted.args = error.args
    if (report := report_of(error)) is not None:
        attach(converted, with_http_advice(report))
    return converted


def _add_http_advice(error: BaseException) -> None:
    report = report_of(error)
    if report is not None:
        attach(error, with_http_advice(report))
