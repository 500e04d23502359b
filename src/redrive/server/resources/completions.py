"""Completions: the handler of an asynchronous step reports how its attempt ended, with the attempt's token."""

from typing import Any

from litestar import Request, Response, Router, post

from redrive.client.reported_outcomes import OutcomeStatus, read_token
from redrive.errors import InvalidOutcomeError
from redrive.server.context import app_of
from redrive.server.contract.models import ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import check_announced_body, path_parameter, read_bytes
from redrive.server.transport.body_budget import FREE

LONGEST_TOKEN = 300


class CompletionResponse(ResponseModel, frozen=True):
    outcome: OutcomeStatus


@post(
    "/{token:str}",
    opt=operation(
        summary="Complete an attempt",
        tag="completions",
        role=None,
        description="The token is the credential: each attempt has its own, and it completes that attempt only. The "
        'body holds the outputs, or {"success": true, "outputs": {...}}, or {"success": false, "error": "..."}, or a '
        "problem with the content type application/problem+json.",
        body=Any,
        example={"success": True, "outputs": {"reservation": "r-17"}},
        responses={
            202: ResponseSpec(CompletionResponse, "The outcome is recorded, and the flow continues."),
            200: ResponseSpec(CompletionResponse, "The attempt has this outcome already."),
        },
        errors=(404, 409, 422, 503),
    ),
)
async def complete(request: Request[Any, Any, Any]) -> Response[bytes]:
    token = path_parameter(request, "token")
    app = app_of(request)
    announced = check_announced_body(request)
    if len(token) > LONGEST_TOKEN or read_token(token) is None:
        raise _unknown()
    # A small body has mostly arrived with the headers: to look at the flow's log twice would cost more than to read it.
    if (announced is None or announced > FREE) and not await app.is_delivery_token(token):
        raise _unknown()
    body = await read_bytes(request)
    try:
        outcome = await app.report_outcome(token, body, request.headers.get("content-type", ""))
    except InvalidOutcomeError as error:
        raise ProblemError(400 if error.malformed else 422, str(error)) from None
    if outcome == "unknown":
        raise _unknown()
    if outcome == "stale":
        raise ProblemError(409, "this attempt is no longer running; its outcome is ignored")
    if outcome == "pending":
        detail = "the attempt has just ended, and it is not known yet whether this outcome counts; report it again"
        raise ProblemError(503, detail, headers={"Retry-After": "1"})
    return json_response(CompletionResponse(outcome=outcome), 202 if outcome == "accepted" else 200)


def _unknown() -> ProblemError:
    # The token is a credential, so the message does not repeat it.
    return ProblemError(404, "no attempt has this token", parameter="token")


router = Router("/v1/completions", route_handlers=[complete])
