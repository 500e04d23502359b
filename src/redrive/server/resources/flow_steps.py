"""The steps of a flow: how they stand, and what operators do about one by hand."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.step_views import ItemView
from redrive.errors import UnknownStepError
from redrive.explain.words import utc
from redrive.server.operations import Answer, Says, Verdict, answer, by, opt
from redrive.server.problems import Refused, unfit
from redrive.server.reading import path_parameter, read_body
from redrive.server.served import app_of

LARGEST_INDEX = 2**31 - 1
Index = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)] | None


class ItemAnswer(Answer, frozen=True):
    """One work item of a step."""

    item: int
    """Its number in the flow."""
    index: int
    """Which of the items of its step it is, from 0."""
    state: str
    attempts: int
    """Begun so far."""
    max_attempts: int | None
    """null: no limit."""
    next_retry_at: datetime | None
    retry_eligible: bool
    """Whether it may be attempted once more at all."""
    ready: bool
    """Whether that may happen now."""
    reason: str
    """Why, in words."""
    error: str | None
    """What its last attempt failed with."""
    undoes: str | None
    """The step whose item it undoes."""


class StepAnswer(Answer, frozen=True):
    name: str
    state: str
    why: str | None
    depends_on: list[str]
    items: list[ItemAnswer]


class ByHand(Verdict, frozen=True):
    index: Index = None
    """Which item of the step, where it has several."""


class CompleteByHand(ByHand, frozen=True):
    outputs: Any = None
    """What the step gives."""


class SettledStep(Answer, frozen=True):
    id: str
    step: str
    told: str


async def steps_of(app: App, flow_id: str) -> list[StepAnswer]:
    return [
        StepAnswer(
            name=step.name,
            state=step.state,
            why=step.why,
            depends_on=list(step.depends_on),
            items=[_item(item) for item in step.items],
        )
        for step in await app.steps_of(flow_id)
    ]


def _item(item: ItemView) -> ItemAnswer:
    return ItemAnswer(
        item=item.item,
        index=item.index,
        state=item.state,
        attempts=item.attempts,
        max_attempts=item.max_attempts,
        next_retry_at=None if item.next_retry_at is None else utc(item.next_retry_at),
        retry_eligible=item.retry_eligible,
        ready=item.ready,
        reason=item.reason,
        error=item.error,
        undoes=item.undoes,
    )


def _verb(name: str, kind: type[ByHand], summary: str, example: dict[str, Any]) -> Any:
    async def settle(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        step = path_parameter(request, "step")
        said = await read_body(request, kind)
        app = app_of(request)
        about: dict[str, Any] = {"index": said.index, "by": by(request, said.by), "why": said.why}
        try:
            if isinstance(said, CompleteByHand):
                await app.complete_step(flow_id, step, said.outputs, **about)
            elif name == "reset":
                await app.reset_step(flow_id, step, **about)
            else:
                await app.resolve_step(flow_id, step, **about)
        except UnknownStepError as error:
            raise Refused(404, str(error), parameter="step") from None
        except (ValueError, TypeError) as error:
            raise unfit(error, "/outputs") from None
        return answer(SettledStep(id=flow_id, step=step, told=name), 202)

    about = opt(
        summary=summary,
        tag="flows",
        role="operate",
        body=kind,
        example=example,
        answers={202: Says(SettledStep, "It was told, and its worker does so.")},
        errors=(404, 409, 422),
    )
    return post(f"/{{flow_id:str}}/steps/{{step:str}}/{name}", name=f"{name}_step", opt=about)(settle)


WHY = {"why": "the warehouse is back", "by": "anna"}

router = Router(
    "/v1/flows",
    route_handlers=[
        _verb("reset", ByHand, "Try a step again, with a fresh allowance of attempts", WHY),
        _verb("complete", CompleteByHand, "Complete a step by hand", {"outputs": {"reservation": "r-17"}, **WHY}),
        _verb("resolve", ByHand, "Settle a step by hand, without a result", WHY),
    ],
)
