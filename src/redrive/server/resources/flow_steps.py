"""The steps of a flow, and their manual resolution by operators."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.step_views import ItemView, StepView
from redrive.determinism.off_loop import off_loop
from redrive.errors import UnknownStepError
from redrive.explain.hidden_payloads import hidden_error, hidden_text
from redrive.flows.chunks import LONG_LOG
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of, visible_flow
from redrive.server.contract.models import OperatorRequest, ResponseModel, json_response, response_of
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError, unprocessable
from redrive.server.requests.parsing import path_parameter, read_body

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
    """The steps that it names as such."""
    after: tuple[str, ...]
    """All steps that it waits for: those it depends on, and those whose outputs it takes."""
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


async def steps_of(app: App, flow_id: str, *, payloads: bool) -> list[StepResponse]:
    steps = await app.steps_of(flow_id)
    return await off_loop(sum(len(step.items) for step in steps) > LONG_LOG, _responses, steps, payloads)


def _responses(steps: list[StepView], payloads: bool) -> list[StepResponse]:
    return [_step(step, payloads) for step in steps]


def _step(step: StepView, payloads: bool) -> StepResponse:
    why = step.why if payloads or step.why is None else hidden_text(step.why)
    return response_of(StepResponse, step, why=why, items=[_item(item, payloads) for item in step.items])


def _item(item: ItemView, payloads: bool) -> ItemResponse:
    error = item.error if payloads or item.error is None else hidden_error(item.error)
    return response_of(ItemResponse, item, error=error)


def _endpoint(name: str, kind: type[ResolutionRequest], summary: str, example: dict[str, Any]) -> Any:
    async def resolve(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        step = path_parameter(request, "step")
        body = await read_body(request, kind)
        app = app_of(request)
        await visible_flow(request, flow_id)
        settings: dict[str, Any] = {"index": body.index, "by": operator_name(request.scope, body.by), "why": body.why}
        async with audited(request, f"step.{name}", f"{flow_id}/{step}", by=body.by, detail=body.why):
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
        within_limits=True,
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
