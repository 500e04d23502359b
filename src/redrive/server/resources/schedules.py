"""Schedules: list, get, put, pause, resume, trigger, backfill, delete."""

from datetime import datetime
from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, delete, get, post, put
from msgspec import Meta

from redrive.client.schedule_views import NEXT_SHOWN, ScheduleView
from redrive.errors import ScheduleError
from redrive.flows.schedules.schedule import Overlap, SkipReason
from redrive.formatting.times import utc_datetime
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of
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
from redrive.server.contract.problems import unprocessable
from redrive.server.requests.cursors import decode_cursor, encode_cursor
from redrive.server.requests.flow_selection import Moment
from redrive.server.requests.parsing import path_parameter, read_body, read_query
from redrive.server.requests.schedule_request import ScheduleRequest, scheduled_call, scheduling
from redrive.stores.records import FlowStatus

TAG = "schedules"


class Timing(ResponseModel, frozen=True):
    cron: str | None
    timezone: str
    every: float | None
    """Seconds."""
    at: datetime | None


class Order(ResponseModel, frozen=True):
    at: datetime
    by: str
    why: str


class Run(ResponseModel, frozen=True):
    flow_id: str
    tick: datetime
    """The tick that it was started for; the moment itself, when it was started by hand."""
    at: datetime
    by: str
    """Who started it by hand; empty for a tick."""
    why: str
    status: FlowStatus | None
    """null when the flow was removed."""


class Skip(ResponseModel, frozen=True):
    tick: datetime
    reason: SkipReason
    """overlap: an earlier flow still ran; missed: no worker was there until it was too late."""


class ScheduleResponse(ResponseModel, frozen=True):
    name: str
    definition: str
    """What its flows run: workflow:Report, action:tidy."""
    state: Literal["active", "paused", "ended"]
    """ended: it has no tick to come."""
    timing: Timing
    overlap: Overlap
    catch_up: float
    jitter: float
    queue: str
    priority: int
    tags: dict[str, str]
    source: Literal["call", "code"]
    """code: a decorator in the code of a worker; call: anything else."""
    revision: int
    created_at: datetime
    updated_at: datetime
    pause: Order | None
    """Set while it is paused."""
    resumed: Order | None
    """How its last pause ended."""
    next_at: datetime | None
    """When the next tick is due, with its jitter."""
    next_ticks: list[datetime]
    """The next ticks, without jitter; in a list of schedules only the first."""
    pending: datetime | None
    """The tick whose flow begins once the running one has ended."""
    started: int
    """How many flows it has started."""
    overlapped: int
    """How many ticks were skipped because an earlier flow still ran."""
    missed: int
    """How many ticks were skipped because no worker was there in time."""
    last_runs: list[Run]
    """Its last flows, newest first; in a list of schedules only the last one."""
    last_skips: list[Skip]
    """The last ticks that it skipped, newest first."""


class SchedulePage(ResponseModel, frozen=True):
    schedules: list[ScheduleResponse]
    next: str | None
    """The cursor of the next page; null on the last one."""


class ScheduleFilter(RequestModel, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 50


class ScheduleQuery(RequestModel, frozen=True):
    ticks: Annotated[int, Meta(ge=0, le=100)] = NEXT_SHOWN
    """How many of the next ticks to show."""


class DeleteQuery(OperatorRequest, frozen=True):
    """Why it goes: a DELETE has no body."""


class BackfillRequest(OperatorRequest, frozen=True, kw_only=True):
    begin: Moment
    end: Moment


class Triggered(ResponseModel, frozen=True):
    flow_id: str


class BackfillResponse(ResponseModel, frozen=True):
    started: list[str]
    """The ids of the flows that were started, in the order of their ticks."""
    existing: int
    """How many ticks had their flow already."""


@get(
    "/",
    opt=operation(
        summary="List schedules by name, each with its next tick and its last flow",
        live=True,
        tag=TAG,
        role="read",
        query=ScheduleFilter,
        responses={200: ResponseSpec(SchedulePage, "A page of schedules.")},
        errors=(422,),
    ),
)
async def list_schedules(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, ScheduleFilter)
    found = await app_of(request).schedules(after=decode_cursor(wanted.cursor) or "", limit=wanted.limit + 1)
    shown = found[: wanted.limit]
    following = encode_cursor(shown[-1].name) if len(found) > len(shown) else None
    return json_response(SchedulePage(schedules=[_response(one) for one in shown], next=following))


@get(
    "/{schedule:str}",
    opt=operation(
        summary="Get a schedule: its next ticks, its last flows, and what it skipped",
        live=True,
        tag=TAG,
        role="read",
        query=ScheduleQuery,
        responses={200: ResponseSpec(ScheduleResponse, "The schedule.")},
        errors=(404, 422),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, ScheduleQuery)
    return json_response(_response(await app_of(request).find_schedule(_name_of(request), ticks=wanted.ticks)))


@put(
    "/{schedule:str}",
    opt=operation(
        summary="Start flows by a schedule, or change the schedule of that name",
        tag=TAG,
        role="operate",
        body=ScheduleRequest,
        example={"flow": {"workflow": "Report"}, "timing": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}},
        responses={200: ResponseSpec(ScheduleResponse, "The schedule as it is now.")},
        errors=(422,),
    ),
)
async def set_schedule(request: Request[Any, Any, Any]) -> Response[bytes]:
    name = _name_of(request)
    wanted = await read_body(request, ScheduleRequest)
    call, settings = await scheduled_call(wanted)
    timing = wanted.timing
    when = timing.cron or timing.every or timing.at
    async with audited(request, "schedule.set", name, detail=f"{when}"):
        with scheduling():
            view = await app_of(request).schedule(name, call, **settings)
    return json_response(_response(view))


def _switch(verb: Literal["pause", "resume"], summary: str, description: str) -> Any:
    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        description=description,
        body=OperatorRequest,
        example={"why": "the warehouse is closed", "by": "anna"},
        responses={200: ResponseSpec(ScheduleResponse, "The schedule as it is now.")},
        errors=(404, 422),
    )

    async def change(request: Request[Any, Any, Any]) -> Response[bytes]:
        name, wanted = _name_of(request), await read_body(request, OperatorRequest)
        app = app_of(request)
        await app.find_schedule(name, ticks=0)
        act = app.pause_schedule if verb == "pause" else app.resume_schedule
        async with audited(request, f"schedule.{verb}", name, by=wanted.by, detail=wanted.why):
            await act(name, by=operator_name(request.scope, wanted.by), why=wanted.why)
        return json_response(_response(await app.find_schedule(name)))

    return post(f"/{{schedule:str}}/{verb}", name=f"{verb}_schedule", status_code=200, opt=about)(change)


@post(
    "/{schedule:str}/trigger",
    status_code=201,
    opt=operation(
        summary="Start a flow of a schedule now",
        tag=TAG,
        role="operate",
        description="Also while another one runs, or the schedule is paused.",
        body=OperatorRequest,
        example={"why": "the report was wrong", "by": "anna"},
        responses={201: ResponseSpec(Triggered, "The flow was started.", headers=("Location",))},
        errors=(404, 422),
    ),
)
async def trigger(request: Request[Any, Any, Any]) -> Response[bytes]:
    name, wanted = _name_of(request), await read_body(request, OperatorRequest)
    app = app_of(request)
    await app.find_schedule(name, ticks=0)
    async with audited(request, "schedule.trigger", name, by=wanted.by, detail=wanted.why):
        handle = await app.trigger_schedule(name, by=operator_name(request.scope, wanted.by), why=wanted.why)
    return json_response(Triggered(flow_id=handle.id), 201, {"Location": f"/v1/flows/{handle.id}"})


@post(
    "/{schedule:str}/backfill",
    status_code=200,
    opt=operation(
        summary="Start the flows of past ticks that have none yet, all at once",
        tag=TAG,
        role="operate",
        body=BackfillRequest,
        example={"begin": "2030-01-01T00:00:00Z", "end": "2030-01-31T00:00:00Z", "why": "a new report", "by": "anna"},
        responses={200: ResponseSpec(BackfillResponse, "The flows were started.")},
        errors=(404, 422),
    ),
)
async def backfill(request: Request[Any, Any, Any]) -> Response[bytes]:
    name, wanted = _name_of(request), await read_body(request, BackfillRequest)
    app = app_of(request)
    await app.find_schedule(name, ticks=0)
    by = operator_name(request.scope, wanted.by)
    detail = f"{wanted.begin.isoformat()} to {wanted.end.isoformat()}: {wanted.why}"
    async with audited(request, "schedule.backfill", name, by=wanted.by, detail=detail):
        try:
            done = await app.backfill_schedule(name, wanted.begin, wanted.end, by=by, why=wanted.why)
        except ScheduleError as error:
            raise unprocessable(error, "/begin" if "begins" in str(error) else "/end") from None
    return json_response(BackfillResponse(started=done.started, existing=done.existing))


@delete(
    "/{schedule:str}",
    status_code=204,
    opt=operation(
        summary="Delete a schedule",
        tag=TAG,
        role="operate",
        description="Its flows stay. One that the code declares is back when a worker starts: pause it instead.",
        query=DeleteQuery,
        responses={204: ResponseSpec(None, "The schedule was deleted.")},
        errors=(404, 422),
    ),
)
async def drop(request: Request[Any, Any, Any]) -> None:
    name, wanted = _name_of(request), read_query(request, DeleteQuery)
    app = app_of(request)
    await app.find_schedule(name, ticks=0)
    async with audited(request, "schedule.delete", name, by=wanted.by, detail=wanted.why):
        await app.delete_schedule(name)


def _name_of(request: Request[Any, Any, Any]) -> str:
    return path_parameter(request, "schedule")


def _response(view: ScheduleView) -> ScheduleResponse:
    return response_of(
        ScheduleResponse,
        view,
        timing=Timing(cron=view.cron, timezone=view.timezone, every=view.every, at=_moment(view.at)),
        pause=None if view.pause is None else response_of(Order, view.pause),
        resumed=None if view.resumed is None else response_of(Order, view.resumed),
        next_ticks=[utc_datetime(tick) for tick in view.next_ticks],
        pending=_moment(view.pending),
        last_runs=[response_of(Run, run, tick=utc_datetime(run.tick)) for run in view.last_runs],
        last_skips=[Skip(tick=utc_datetime(skip.tick), reason=skip.reason) for skip in view.last_skips],
    )


def _moment(at: float | None) -> datetime | None:
    return None if at is None else utc_datetime(at)


router = Router(
    "/v1/schedules",
    route_handlers=[
        list_schedules,
        show,
        set_schedule,
        _switch(
            "pause",
            "Pause a schedule: it starts nothing until it is resumed",
            "What falls due meanwhile is not made up for. A paused schedule keeps its first pause.",
        ),
        _switch("resume", "Resume a paused schedule", "It goes on with its next tick."),
        trigger,
        backfill,
        drop,
    ],
)
