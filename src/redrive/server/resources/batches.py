"""Batches: add, list, get, cancel, redrive."""

from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from litestar import Request, Response, Router, get, post
from msgspec import Meta

from redrive.client.batches import BATCH_NAME, LONGEST_NAME
from redrive.client.many_starts import CallToStart
from redrive.errors import BatchTakenError, KeyTakenError, StoreError
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of, context_of
from redrive.server.contract.models import (
    Cursor,
    Limit,
    OperatorRequest,
    RequestModel,
    ResponseModel,
    json_response,
    response_of,
)
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError, unprocessable
from redrive.server.requests.cursors import decode_cursor, encode_cursor, invalid_cursor
from redrive.server.requests.flow_start import StartRequest, Tags, call_of, settings_of
from redrive.server.requests.parsing import decode, path_parameter, read_body, read_bytes, read_query
from redrive.stores.batches import BatchCounts, BatchQuery, BatchStatus

TAG = "batches"
MOST_FLOWS = 10_000
"""Flows of one request; the command line adds larger batches."""
BatchName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=rf"^{BATCH_NAME}$(?!\n)")]


class BatchRequest(RequestModel, frozen=True):
    """Flows to count and await together. Sending the same batch again adds nothing."""

    name: BatchName
    flows: Annotated[list[StartRequest], Meta(max_length=MOST_FLOWS)]
    """Each as it is started alone, but not by goals alone. Without a key, its position is its key in the batch."""
    on_done: StartRequest | None = None
    """Started once, when all have ended. A parameter `counts` that is not given is filled in with the counts."""
    tags: Tags | None = None
    """Of all the flows that have none of their own."""


class BatchResponse(ResponseModel, frozen=True):
    name: str
    created_at: datetime
    total: int | None
    """How many flows it has; null while they are being added."""
    counts: BatchCounts
    """How many of them are in each state."""
    tags: dict[str, str]
    on_done: str | None
    """The id of the flow that starts when all have ended."""
    is_done: bool
    """Whether all were added and have ended; what was redriven has not."""
    done_at: datetime | None
    """When all had ended for the first time."""


class BatchPage(ResponseModel, frozen=True):
    batches: list[BatchResponse]
    next: str | None
    """The cursor of the next page; null on the last one."""


class BatchFilter(RequestModel, frozen=True):
    done: bool | None = None
    """Whether all flows of the batch have ended once."""
    cursor: Cursor | None = None
    limit: Limit = 50


class BatchRequested(ResponseModel, frozen=True):
    name: str
    requested: str
    count: int
    """How many flows are in a state for it."""
    done: int
    """How many of them were asked."""


@post(
    "/",
    opt=operation(
        summary="Add a batch of flows",
        tag=TAG,
        role="operate",
        description=f"At most {MOST_FLOWS:,} flows; `redrive batch start` and the app add larger batches.",
        body=BatchRequest,
        example={"name": "night 2026-11-19", "flows": [{"workflow": "Billing", "inputs": {"user": "u1"}}]},
        responses={
            201: ResponseSpec(BatchResponse, "The batch was added.", headers=("Location",)),
            200: ResponseSpec(BatchResponse, "The same batch had been added before.", headers=("Location",)),
        },
        errors=(409, 422),
    ),
)
async def add(request: Request[Any, Any, Any]) -> Response[bytes]:
    sent = await read_bytes(request)
    app = app_of(request)
    async with context_of(request).large_inputs.turn(len(sent)):
        body = decode(sent, BatchRequest)
        calls = [await _call(one, f"/flows/{number}") for number, one in enumerate(body.flows)]
        on_done = None if body.on_done is None else await _call(body.on_done, "/on_done", ("delay", "key"))
        try:
            batch = await app.batch(body.name, calls, on_done=on_done, tags=body.tags)
        except (BatchTakenError, KeyTakenError, StoreError):
            raise
        except (ValueError, TypeError) as error:
            raise unprocessable(error, "") from None
    answer = _response(await batch.status())
    return json_response(answer, 201 if batch.is_new else 200, {"Location": f"/v1/batches/{_quoted(batch.name)}"})


async def _call(body: StartRequest, pointer: str, without: tuple[str, ...] = ()) -> CallToStart:
    try:
        settings = settings_of(body)
        for name in without:
            if settings.pop(name) is not None:
                raise ProblemError(422, f"`{name}` is not for what follows a batch; leave it out")
        call = await call_of(body)
    except ProblemError as error:
        raise error.under(pointer) from None
    except (ValueError, TypeError) as error:
        raise unprocessable(error, pointer) from None
    if call is None:
        raise ProblemError(422, "a flow of a batch is not planned by goals alone; name a graph", pointer=pointer)
    return call, {name: value for name, value in settings.items() if value is not None}


@get(
    "/",
    opt=operation(
        summary="List batches, newest first",
        live=True,
        tag=TAG,
        role="read",
        query=BatchFilter,
        responses={200: ResponseSpec(BatchPage, "A page of batches, with the counts of their flows.")},
        errors=(422,),
    ),
)
async def list_batches(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, BatchFilter)
    query = BatchQuery(done=wanted.done, before=_position(wanted.cursor), limit=wanted.limit + 1)
    found = await app_of(request).batches(query)
    shown = found[: wanted.limit]
    following = encode_cursor(f"{shown[-1].created_at!r} {shown[-1].name}") if len(found) > len(shown) else None
    return json_response(BatchPage(batches=[_response(one) for one in shown], next=following))


def _position(cursor: str | None) -> tuple[float, str] | None:
    if (last := decode_cursor(cursor)) is None:
        return None
    at, _, name = last.partition(" ")
    try:
        return float(at), name
    except ValueError:
        raise invalid_cursor() from None


@get(
    "/{batch:str}",
    opt=operation(
        summary="Get a batch, and how far it is",
        live=True,
        tag=TAG,
        role="read",
        responses={200: ResponseSpec(BatchResponse, "The batch, with the counts of its flows.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    batch = await app_of(request).find_batch(path_parameter(request, "batch"))
    return json_response(_response(await batch.status()))


def _endpoint(name: Literal["cancel", "redrive"], summary: str, description: str) -> Any:
    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        description=description,
        body=OperatorRequest,
        example={"why": "the bank is back", "by": "anna"},
        responses={200: ResponseSpec(BatchRequested, "The requests are in the flows' inboxes.")},
        errors=(404, 422),
    )

    async def change(request: Request[Any, Any, Any]) -> Response[bytes]:
        batch = await app_of(request).find_batch(path_parameter(request, "batch"))
        wanted = await read_body(request, OperatorRequest)
        verb = batch.cancel if name == "cancel" else batch.redrive
        async with audited(request, f"batch.{name}", batch.name, by=wanted.by, detail=wanted.why):
            outcome = await verb(by=operator_name(request.scope, wanted.by), why=wanted.why)
        return json_response(BatchRequested(name=batch.name, requested=name, count=outcome.count, done=outcome.done))

    return post(f"/{{batch:str}}/{name}", name=f"{name}_batch", status_code=200, opt=about)(change)


def _response(status: BatchStatus) -> BatchResponse:
    return response_of(BatchResponse, status, is_done=status.is_done)


def _quoted(name: str) -> str:
    return quote(name, safe="")


router = Router(
    "/v1/batches",
    route_handlers=[
        add,
        list_batches,
        show,
        _endpoint("cancel", "Cancel all flows of a batch that have not ended", "They may clean up."),
        _endpoint(
            "redrive", "Redrive all flows of a batch that failed", "What follows the batch is not started again."
        ),
    ],
)
