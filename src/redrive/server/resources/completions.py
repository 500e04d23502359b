"""How an attempt ended that was accepted earlier: told by whoever holds its token, without an API key."""

from typing import Any

from litestar import Request, Response, Router, post

from redrive.client.outcomes import OutcomeStatus
from redrive.errors import InvalidOutcomeError
from redrive.server.operations import Answer, Says, answer, opt
from redrive.server.problems import Refused
from redrive.server.reading import path_parameter, read_bytes
from redrive.server.served import app_of

LONGEST_TOKEN = 300


class Received(Answer, frozen=True):
    outcome: OutcomeStatus


@post(
    "/{token:str}",
    opt=opt(
        summary="Say how an attempt ended",
        tag="completions",
        role=None,
        description="The token is the credential: it comes with each attempt, and is good for that one only. The body "
        'is the outputs, or {"success": true, "outputs": {...}}, or {"success": false, "error": "..."}, or a problem '
        "with the content type application/problem+json.",
        body=Any,
        example={"success": True, "outputs": {"reservation": "r-17"}},
        answers={
            202: Says(Received, "It is kept, and the flow goes on."),
            200: Says(Received, "The same was told before."),
        },
        errors=(404, 409, 422),
    ),
)
async def complete(request: Request[Any, Any, Any]) -> Response[bytes]:
    token = path_parameter(request, "token")
    body = await read_bytes(request)
    if len(token) > LONGEST_TOKEN:
        raise _unknown()
    try:
        outcome = await app_of(request).report_outcome(token, body, request.headers.get("content-type", ""))
    except InvalidOutcomeError as error:
        raise Refused(422, str(error)) from None
    if outcome == "unknown":
        raise _unknown()
    if outcome == "stale":
        raise Refused(409, "this attempt is no longer the one under way; what was told is not used")
    return answer(Received(outcome=outcome), 202 if outcome == "accepted" else 200)


def _unknown() -> Refused:
    # The token itself is a credential, and is not repeated.
    return Refused(404, "no attempt has this token", parameter="token")


router = Router("/v1/completions", route_handlers=[complete])
