"""Workers."""

from datetime import datetime
from typing import Any

from litestar import Request, Response, Router, get

from redrive.explain.store_reader import all_workers
from redrive.server.context import app_of
from redrive.server.models import NoQuery, ResponseModel, json_response, response_of
from redrive.server.operations import ResponseSpec, operation
from redrive.server.request_parsing import read_query


class WorkerResponse(ResponseModel, frozen=True):
    name: str
    """Host and process id."""
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None
    """null: all queues."""
    joined_at: datetime
    expires_at: datetime
    """When the lease expires unless it is renewed."""
    alive: bool
    flows: int
    """How many flows it owns."""


class WorkerList(ResponseModel, frozen=True):
    workers: list[WorkerResponse]


@get(
    "/",
    opt=operation(
        summary="List workers",
        live=True,
        tag="workers",
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(WorkerList, "Workers with a lease, valid or expired.")},
    ),
)
async def workers(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    found = await all_workers(app_of(request).store)
    return json_response(WorkerList(workers=[response_of(WorkerResponse, worker) for worker in found]))


router = Router("/v1/workers", route_handlers=[workers])
