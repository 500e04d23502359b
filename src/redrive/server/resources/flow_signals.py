"""Signals to flows."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, post
from msgspec import Meta

from redrive.flows.workflows.handlers import LONGEST_NAME
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of, visible_flow
from redrive.server.contract.models import OperatorName, RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import path_parameter, read_body, read_header
from redrive.server.resources.flows import PLAIN_TEXT

LONGEST_ID = 200


class SignalSent(ResponseModel, frozen=True):
    id: str
    """The flow."""
    signal: str


class SignalRequest(RequestModel, frozen=True):
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    """By name."""
    by: OperatorName = ""
    """Who sends it; the name of the API key is kept beside it."""
    why: Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$")] = ""
    """For the audit log."""


@post(
    "/{flow_id:str}/signals/{name:str}",
    opt=operation(
        summary="Send a signal to a flow",
        description="Once it is answered, the signal is stored. The flow receives it once and in order, also if it has "
        "not begun yet.",
        tag="flows",
        role="operate",
        within_limits=True,
        body=SignalRequest,
        example={"arguments": {"by": "ann"}},
        headers={"Idempotency-Key": "A signal that is sent again with the same key is received once."},
        header_schemas={"Idempotency-Key": {"type": "string", "maxLength": LONGEST_ID, "pattern": PLAIN_TEXT}},
        responses={202: ResponseSpec(SignalSent, "The signal is in the flow's inbox.")},
        errors=(404, 409),
    ),
)
async def signal(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id, name = path_parameter(request, "flow_id"), path_parameter(request, "name")
    wanted = await read_body(request, SignalRequest)
    await visible_flow(request, flow_id)
    if len(name) > LONGEST_NAME:
        raise ProblemError(422, f"the name of a signal has at most {LONGEST_NAME} characters", parameter="name")
    key = read_header(request, "Idempotency-Key", LONGEST_ID)
    by = operator_name(request.scope, wanted.by)
    detail = f"{name}: {wanted.why}" if wanted.why else name
    async with audited(request, "flow.signal", flow_id, by=wanted.by, detail=detail):
        await app_of(request).signal(flow_id, name, wanted.arguments, signal_id=key or None, by=by)
    return json_response(SignalSent(id=flow_id, signal=name), 202)


router = Router("/v1/flows", route_handlers=[signal])
