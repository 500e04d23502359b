"""The steps of a flow, and their manual resolution by operators."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, post
from msgspec import Meta

from redrive.client.app import App
from redrive.errors import UnknownStepError
from redrive.server.authentication import operator_name
from redrive.server.context import app_of
from redrive.server.models import OperatorRequest, ResponseModel, json_response, response_of
from redrive.server.operations import ResponseSpec, operation
from redrive.server.problems import ProblemError, unprocessable
from redrive.server.request_parsing import path_parameter, read_body

LARGEST_INDEX = 2**31 - 1
Index = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)] | None


class ItemResponse(ResponseModel, frozen=True):
    """One work item of a step."""

    item: int
    """Its number in the flow."""
    index: int
    """Which of its step's items it is, from 0."""
    state: str
    attempts: int
    """Attempts begun so far."""
    max_attempts: int | None
    """null: no limit."""
    next_retry_at: datetime | None
    retry_eligible: bool
    """Whether the work item may be attempted again at all."""
    ready: bool
    """Whether it may be attempted now."""
    reason: str
    """Why, in words."""
    error: str | None
    """The error of its last attempt."""
    compensates: str | None
    """The step whose item it compensates."""


class StepResponse(ResponseModel, frozen=True):
    name: str
    state: str
    why: str | None
    depends_on: tuple[str, ...]
    items: list[ItemResponse]


class ResolutionRequest(OperatorRequest, frozen=True):
    index: Index = None
    """Which item of the step; needed if several are unfinished."""


class CompletionRequest(ResolutionRequest, frozen=True):
    outputs: Any = None
    """The outputs that the step would have had."""


class StepRequested(ResponseModel, frozen=True):
    id: str
    step: str
    requested: str


async def steps_of(app: App, flow_id: str) -> list[StepResponse]:
    return [
        response_of(StepResponse, step, items=[response_of(ItemResponse, item) for item in step.items])
        for step in await app.steps_of(flow_id)
    ]


def _endpoint(name: str, kind: type[ResolutionRequest], summary: str, example: dict[str, Any]) -> Any:
    async def resolve(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        step = path_parameter(request, "step")
        body = await read_body(request, kind)
        app = app_of(request)
        settings: dict[str, Any] = {"index": body.index, "by": operator_name(request.scope, body.by), "why": body.why}
        try:
            if isinstance(body, CompletionRequest):
                await app.complete_step(flow_id, step, body.outputs, **settings)
            elif name == "reset":
                await app.reset_step(flow_id, step, **settings)
            else:
                await app.resolve_step(flow_id, step, **settings)
        except UnknownStepError as error:
            raise ProblemError(404, str(error), parameter="step") from None
        except (ValueError, TypeError) as error:
            raise unprocessable(error, "/outputs") from None
        return json_response(StepRequested(id=flow_id, step=step, requested=name), 202)

    about = operation(
        summary=summary,
        tag="flows",
        role="operate",
        body=kind,
        example=example,
        responses={
            202: ResponseSpec(StepRequested, "The request is in the flow's inbox, and its worker will carry it out.")
        },
        errors=(404, 409, 422),
    )
    return post(f"/{{flow_id:str}}/steps/{{step:str}}/{name}", name=f"{name}_step", opt=about)(resolve)


OUTPUTS = {"outputs": {"reservation": "r-17"}}
WHY = {"why": "the warehouse is back", "by": "anna"}

router = Router(
    "/v1/flows",
    route_handlers=[
        _endpoint("reset", ResolutionRequest, "Try a step again, with a fresh allowance of attempts", WHY),
        _endpoint("complete", CompletionRequest, "Complete a step manually, with outputs", {**OUTPUTS, **WHY}),
        _endpoint("resolve", ResolutionRequest, "Resolve a step manually, without outputs", WHY),
    ],
)
