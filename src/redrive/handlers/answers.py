"""HTTP answers for the outcome of a step function, such that the engine classifies it in the same way."""

import math
from typing import Any

import msgspec
from aiohttp import web

from redrive.determinism.clock import current_clock
from redrive.errors import ArgumentsError, Snooze
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.redaction import redact
from redrive.flows.action import Action
from redrive.flows.values.named_arguments import call_by_names
from redrive.handlers.headers import CALLBACK
from redrive.runners.http.answers import ACCEPTED_STATUS, Accepted

_ACCEPTED = msgspec.json.encode(Accepted()).decode()
_STATUSES = {"permanent": 422, "transient": 503, "unknown": 500}
_TITLES = {"permanent": "failed permanently", "transient": "failed transiently", "unknown": "failed unexpectedly"}


def outputs_answer(result: str) -> web.Response:
    """Return the answer of a function that returned; `result` is JSON."""
    if result == _ACCEPTED and CALLBACK.get() is not None:
        return web.json_response(text=result, status=ACCEPTED_STATUS)
    return web.json_response(text=f'{{"success":true,"outputs":{result}}}')


def failure_answer(step: str, error: BaseException, timed_out: bool) -> web.Response:
    """Return the answer of a function that raised: a status by which the engine retries or gives up."""
    failure = DEFAULT_CLASSIFIER.failure_of(error, current_clock().wall(), timed_out)
    category, wait = failure.category, failure.retry_after
    if isinstance(error, Snooze):
        category, wait = "transient", error.seconds
    answer = problem(
        _STATUSES[category],
        f"step {step} {_TITLES[category]}",
        f"{type(error).__name__}: {failure.message}" if failure.message else type(error).__name__,
        error_type=failure.type,
    )
    if category == "transient" and wait is not None:
        answer.headers["Retry-After"] = str(math.ceil(wait))
    return answer


def problem(status: int, title: str, detail: str, **more: Any) -> web.Response:
    """Return a problem document (RFC 9457)."""
    content = {"type": "about:blank", "title": title, "status": status, "detail": redact(detail), **more}
    return web.Response(
        status=status, body=msgspec.json.encode(content), headers={"Content-Type": "application/problem+json"}
    )


def bad_inputs(step: str, error: ArgumentsError) -> web.Response:
    return problem(
        400, f"the inputs do not fit step {step}", str(error), **({"field": error.name} if error.name else {})
    )


def check_inputs(action: Action[Any, Any], body: bytes) -> str:
    """Return the inputs as JSON; raise ArgumentsError, which names the field that does not fit."""
    try:
        inputs = msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ArgumentsError(f"the body is not a JSON object: {error}") from None
    call_by_names(action.signature, inputs, "the object")
    return body.decode() or "{}"
