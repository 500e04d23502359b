"""Queues, their settings and their pauses."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get, post, put
from msgspec import Meta

from redrive.client.queue_control import LONGEST_AGING, checked_changes
from redrive.server.access.audit import audited
from redrive.server.access.authentication import caller_of, operator_name
from redrive.server.context import app_of
from redrive.server.contract.models import (
    NoQuery,
    OperatorRequest,
    RequestModel,
    ResponseModel,
    json_response,
    response_of,
)
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import path_parameter, read_body, read_query
from redrive.stores.queue_names import LARGEST_LIMIT, QUEUE_NAME, is_queue
from redrive.stores.queues import SETTINGS, QueueRecord


class PauseResponse(ResponseModel, frozen=True):
    at: datetime
    by: str
    why: str


class QueueResponse(ResponseModel, frozen=True):
    name: str
    limit: int | None
    """How many of its flows may run at once, across all workers; null: no limit."""
    per_key: int | None
    """How many of these may have the same concurrency key; null: no limit."""
    rate: str | None
    """How many of its flows may begin in which time, such as "100/m"; null: no limit."""
    key_rate: str | None
    """How many of its flows with the same concurrency key may begin in which time; null: no limit."""
    aging: float | None
    """Seconds of waiting after which the priority of a flow rises by one; null: it does not."""
    ready: int
    waiting: int
    due: int
    """How many of the waiting flows could go on now."""
    running: int
    paused: int
    """How many of its flows were paused one by one."""
    parked: int
    pause: PauseResponse | None
    """Set while the whole queue is paused: no worker begins an attempt of its flows."""


class QueueList(ResponseModel, frozen=True):
    queues: list[QueueResponse]


_Limit = Annotated[int, Meta(ge=1, le=LARGEST_LIMIT)] | None
_Rate = Annotated[str, Meta(min_length=1, max_length=80)] | None


class QueueSettingsRequest(RequestModel, frozen=True):
    """What to set; null removes a setting, and what is left out stays as it is."""

    limit: _Limit | msgspec.UnsetType = msgspec.UNSET
    """How many of its flows may run at once, across all workers."""
    per_key: _Limit | msgspec.UnsetType = msgspec.UNSET
    """How many of these may have the same concurrency key."""
    rate: _Rate | msgspec.UnsetType = msgspec.UNSET
    """How many of its flows may begin in which time, such as "100/m"."""
    key_rate: _Rate | msgspec.UnsetType = msgspec.UNSET
    """How many of its flows with the same concurrency key may begin in which time."""
    aging: (
        Annotated[float, Meta(gt=0, le=LONGEST_AGING)] | Annotated[str, Meta(max_length=50)] | msgspec.UnsetType | None
    ) = msgspec.UNSET
    """The time of waiting after which the priority of a flow rises by one: seconds, or text such as "10m"."""


@get(
    "/",
    opt=operation(
        summary="List queues, and how full they are",
        live=True,
        tag="queues",
        role="read",
        within_limits=True,
        query=NoQuery,
        responses={200: ResponseSpec(QueueList, "All queues.")},
    ),
)
async def queues(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    only = caller_of(request.scope).queues
    found = [one for one in await app_of(request).queues() if not only or one.name in only]
    return json_response(QueueList(queues=[_response(one) for one in found]))


@put(
    "/{queue:str}",
    opt=operation(
        summary="Limit how many flows of a queue, or of a key, may run at once or begin in a time",
        tag="queues",
        role="admin",
        description="The settings apply across all workers.",
        body=QueueSettingsRequest,
        example={"limit": 10, "per_key": 2, "rate": "100/m"},
        responses={200: ResponseSpec(QueueResponse, "The queue, with its settings.")},
        errors=(422,),
    ),
)
async def configure(request: Request[Any, Any, Any]) -> Response[bytes]:
    queue = _queue_of(request)
    wanted = await read_body(request, QueueSettingsRequest)
    changes: Any = {name: value for name in SETTINGS if (value := getattr(wanted, name)) is not msgspec.UNSET}
    if not changes:
        raise ProblemError(422, f"name what to set: {', '.join(SETTINGS)}")
    for name, value in changes.items():
        try:
            checked_changes({name: value})
        except ValueError as error:
            raise ProblemError(422, str(error), pointer=f"/{name}") from None
    detail = ", ".join(f"{name}: {'none' if value is None else value}" for name, value in changes.items())
    async with audited(request, "queue.limit", queue, detail=detail):
        await app_of(request).configure_queue(queue, **changes)
    return await _found(request, queue)


def _endpoint(name: Literal["pause", "resume"], summary: str, description: str) -> Any:
    about = operation(
        summary=summary,
        tag="queues",
        role="admin",
        description=description,
        body=OperatorRequest,
        example={"why": "the provider is down", "by": "anna"},
        responses={200: ResponseSpec(QueueResponse, "The queue as it is now.")},
        errors=(422,),
    )

    async def change(request: Request[Any, Any, Any]) -> Response[bytes]:
        queue = _queue_of(request)
        wanted = await read_body(request, OperatorRequest)
        app = app_of(request)
        async with audited(request, f"queue.{name}", queue, by=wanted.by, detail=wanted.why):
            if name == "pause":
                await app.pause_queue(queue, by=operator_name(request.scope, wanted.by), why=wanted.why)
            else:
                await app.resume_queue(queue)
        return await _found(request, queue)

    return post(f"/{{queue:str}}/{name}", name=f"{name}_queue", status_code=200, opt=about)(change)


def _queue_of(request: Request[Any, Any, Any]) -> str:
    queue = path_parameter(request, "queue")
    if not is_queue(queue):
        raise ProblemError(422, QUEUE_NAME, parameter="queue")
    return queue


async def _found(request: Request[Any, Any, Any], queue: str) -> Response[bytes]:
    app = app_of(request)
    found = await app.store.list_queues(app.now(), queue)
    empty = QueueRecord(name=queue, limit=None, ready=0, waiting=0, running=0)
    return json_response(_response(found[0] if found else empty))


def _response(queue: QueueRecord) -> QueueResponse:
    pause = None if queue.pause is None else response_of(PauseResponse, queue.pause)
    return response_of(QueueResponse, queue, pause=pause)


router = Router(
    "/v1/queues",
    route_handlers=[
        queues,
        configure,
        _endpoint(
            "pause",
            "Pause a queue: no attempt of its flows begins, and running ones may finish",
            "The pause applies across all workers, until the queue is resumed. A paused queue keeps its first pause.",
        ),
        _endpoint("resume", "Resume a paused queue", "Its flows go on where they were."),
    ],
)
