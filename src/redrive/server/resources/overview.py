"""The overview and the activity behind it: all flows together."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get
from msgspec import Meta

from redrive.explain.store_reader import all_workers
from redrive.server.context import app_of
from redrive.server.contract.models import Name, NoQuery, RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.observed.overview import SPARKLINE_MINUTES, Observed, Overview, overview
from redrive.server.observed.series import Series, minutes_until, series_by
from redrive.server.requests.parsing import read_query
from redrive.stores.activity import LONGEST_ACTIVITY, MINUTE, ActivityName, ActivityQuery
from redrive.stores.interface import Store
from redrive.stores.records import DeadQuery, FlowQuery
from redrive.stores.worker_reports import read_report

MOST_COUNTED = 10_000
MOST_SERIES = 50


class Activity(ResponseModel, frozen=True):
    minutes: list[int]
    """When each minute began, in epoch seconds; the last one is not over."""
    series: list[Series]
    """Those with the most attempts first, at most 50."""


class ActivityFilter(RequestModel, frozen=True):
    minutes: Annotated[int, Meta(ge=1, le=int(LONGEST_ACTIVITY / MINUTE))] = 60
    by: ActivityName | None = None
    """A series for each of them; without it, one for all together."""
    definition: Name | None = None
    """workflow:Billing, action:charge, ..."""
    dependency: Name | None = None


@get(
    "/overview",
    opt=operation(
        summary="See what is failing, what waits and why, and what happens next",
        live=True,
        tag="overview",
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(Overview, "All flows together.")},
    ),
)
async def show_overview(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    app = app_of(request)
    return json_response(overview(await observe(app.store, app.now())))


async def observe(store: Store, now: float) -> Observed:
    """Read what the overview is made of."""
    since = minutes_until(now, SPARKLINE_MINUTES)[0]
    reports = [read_report(one) for one in await store.list_reports()]
    return Observed(
        queues=await store.list_queues(now),
        failed=await store.count_matching_flows(FlowQuery(status=("failed",), limit=MOST_COUNTED)),
        cancelled=await store.count_matching_flows(FlowQuery(status=("cancelled",), limit=MOST_COUNTED)),
        retries=await store.group_retries(),
        dead=await store.group_dead_letters(DeadQuery()),
        workers=await all_workers(store),
        reports=[one for one in reports if one is not None],
        orders=await store.list_dependency_orders(),
        activity=await store.read_activity(ActivityQuery(since=since)),
        now=now,
    )


@get(
    "/activity",
    opt=operation(
        summary="See how attempts ended, minute by minute",
        live=True,
        tag="overview",
        role="read",
        description="Workers report it every few seconds; it is kept for 48 hours.",
        query=ActivityFilter,
        responses={200: ResponseSpec(Activity, "A series for each definition, step, dependency, or for all.")},
    ),
)
async def activity(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, ActivityFilter)
    app = app_of(request)
    minutes = minutes_until(app.now(), wanted.minutes)
    query = ActivityQuery(
        since=minutes[0],
        by=() if wanted.by is None else (wanted.by,),
        definition=wanted.definition,
        dependency=wanted.dependency,
    )
    rows = await app.store.read_activity(query)
    return json_response(Activity(minutes=minutes, series=series_by(wanted.by, rows, minutes, MOST_SERIES)))


router = Router("/v1", route_handlers=[show_overview, activity])
