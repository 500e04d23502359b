"""Workers."""

from datetime import datetime
from typing import Any

from litestar import Request, Response, Router, get

from redrive.explain.store_reader import all_workers
from redrive.formatting.times import utc_datetime
from redrive.server.context import app_of
from redrive.server.contract.models import NoQuery, ResponseModel, json_response, response_of
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.requests.parsing import read_query
from redrive.stores.worker_reports import WorkerReport, read_report


class SlotUseResponse(ResponseModel, frozen=True):
    """How full an executor is."""

    size: int
    busy: int
    waiting: int
    """Attempts that wait for a slot of it."""


class RunningAttemptResponse(ResponseModel, frozen=True):
    flow_id: str
    item: int
    step: str
    attempt: int
    began_at: datetime


class HeldLoopResponse(ResponseModel, frozen=True):
    """Code that kept the event loop from everything else."""

    seconds: float
    at: datetime
    """When it was seen last."""
    flow_id: str | None
    """null where it was no flow's code, or that of several in turn."""
    step: str
    place: str
    """The line of the user's code, where it is known."""


class WorkerReportResponse(ResponseModel, frozen=True):
    """What the worker told of itself."""

    at: datetime
    """When: each second while something changes, and each 10 seconds."""
    version: str
    pid: int
    host: str
    began_at: datetime
    slots: dict[str, SlotUseResponse]
    """loop, thread, process, alone (for attempts that may take the worker down)."""
    running: list[RunningAttemptResponse]
    """At most 50, those that began first."""
    held_loop: HeldLoopResponse | None
    """What blocked its event loop last; null if nothing has."""


class WorkerResponse(ResponseModel, frozen=True):
    name: str
    """Host and process id."""
    version: str
    """Of its code; empty where it names none."""
    definitions: tuple[str, ...]
    queues: tuple[str, ...] | None
    """null: all queues."""
    joined_at: datetime
    expires_at: datetime
    """When the lease expires unless it is renewed."""
    alive: bool
    flows: int
    """How many flows it owns."""
    report: WorkerReportResponse | None
    """null before the first, and from another version."""


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
    store = app_of(request).store
    found = await all_workers(store)
    reports = {one.epoch: one for one in await store.list_reports()}
    shown = [response_of(WorkerResponse, one, report=_report(reports.get(one.epoch))) for one in found]
    return json_response(WorkerList(workers=shown))


def _report(report: WorkerReport | None) -> WorkerReportResponse | None:
    body = None if report is None else read_report(report)
    if report is None or body is None:
        return None
    return response_of(
        WorkerReportResponse,
        body,
        at=utc_datetime(report.at),
        slots={name: response_of(SlotUseResponse, one) for name, one in body.slots.items()},
        running=[response_of(RunningAttemptResponse, one) for one in body.running],
        held_loop=None if body.held_loop is None else response_of(HeldLoopResponse, body.held_loop),
    )


router = Router("/v1/workers", route_handlers=[workers])
