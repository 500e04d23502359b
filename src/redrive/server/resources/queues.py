"""Queues, and their limits."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get, put
from msgspec import Meta

from redrive.client.app import LARGEST_LIMIT
from redrive.server.context import app_of
from redrive.server.models import NoQuery, RequestModel, ResponseModel, json_response, response_of
from redrive.server.operations import ResponseSpec, operation
from redrive.server.problems import ProblemError
from redrive.server.request_parsing import path_parameter, read_body, read_query
from redrive.stores.queue_names import QUEUE_NAME, is_queue
from redrive.stores.records import QueueRecord


class QueueResponse(ResponseModel, frozen=True):
    name: str
    limit: int | None
    """How many of its flows may run at once, across all workers; null: no limit."""
    ready: int
    waiting: int
    running: int


class QueueList(ResponseModel, frozen=True):
    queues: list[QueueResponse]


class QueueLimit(RequestModel, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=LARGEST_LIMIT)] | None
    """null: no limit."""


@get(
    "/",
    opt=operation(
        summary="List queues, and how full they are",
        tag="queues",
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(QueueList, "All queues.")},
    ),
)
async def queues(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    return json_response(QueueList(queues=[response_of(QueueResponse, one) for one in await app_of(request).queues()]))


@put(
    "/{queue:str}",
    opt=operation(
        summary="Limit how many flows of a queue may run at once",
        tag="queues",
        role="admin",
        description="The limit applies across all workers.",
        body=QueueLimit,
        example={"limit": 10},
        responses={200: ResponseSpec(QueueResponse, "The queue, with its limit.")},
        errors=(422,),
    ),
)
async def limit(request: Request[Any, Any, Any]) -> Response[bytes]:
    queue = path_parameter(request, "queue")
    wanted = await read_body(request, QueueLimit)
    if not is_queue(queue):
        raise ProblemError(422, QUEUE_NAME, parameter="queue")
    app = app_of(request)
    await app.limit_queue(queue, wanted.limit)
    known = {one.name: one for one in await app.queues()}
    empty = QueueRecord(name=queue, limit=wanted.limit, ready=0, waiting=0, running=0)
    return json_response(response_of(QueueResponse, known.get(queue, empty)))


router = Router("/v1/queues", route_handlers=[queues, limit])
