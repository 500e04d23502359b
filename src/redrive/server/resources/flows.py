"""Flows: start them, list them, look at one, tell it what to do."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.definition_names import full_name
from redrive.client.handle import Handle
from redrive.explain.explanation import Explanation
from redrive.flows.events import FlowCompleted, FlowFailed
from redrive.formatting.times import utc_datetime
from redrive.server.operations import Answer, Ask, Cursor, Limit, Name, Says, Verdict, answer, by, opt
from redrive.server.paging import cursor_after, read_cursor
from redrive.server.problems import Refused
from redrive.server.reading import header, path_parameter, read_body, read_query
from redrive.server.resources.flow_steps import StepAnswer, steps_of
from redrive.server.served import app_of
from redrive.server.starting import Start, start_flow
from redrive.stores.records import FINISHED, FlowQuery, FlowRecord, FlowStatus

TAG = "flows"
LONGEST_KEY = 500
PLAIN_TEXT = "^[!-~]([ -~]*[!-~])?$"
EXAMPLE = {"graph": "order", "inputs": {"order_id": "17"}, "key": "order-17"}


class FlowAnswer(Answer, frozen=True):
    """A flow, without what it was started with: that may hold secrets, and `explain` has a summary."""

    id: str
    definition: str
    """workflow:Billing, action:charge, graph:order; graph:goals where steps of the catalogue were planned by goals."""
    status: FlowStatus
    queue: str
    priority: int
    key: str | None
    created_at: datetime
    start_at: datetime
    wake_at: datetime | None
    """When a waiting flow goes on."""
    finished_at: datetime | None


class FlowError(Answer, frozen=True):
    """Why it failed."""

    kind: str
    type: str
    message: str


class FlowDetails(FlowAnswer, frozen=True):
    steps: list[StepAnswer]
    """Of a graph all of them, else the actions that it has called so far."""
    result: msgspec.Raw | None
    """Of a flow that completed."""
    error: FlowError | None
    """Of a flow that failed."""


class FlowPage(Answer, frozen=True):
    flows: list[FlowAnswer]
    next: str | None
    """The cursor of the next page; null on the last one."""


class FlowFilter(Ask, frozen=True):
    status: list[FlowStatus] = msgspec.field(default_factory=list)
    """May be repeated."""
    definition: Name | None = None
    """Those of it: Billing, or workflow:Billing, action:charge."""
    queue: Name | None = None
    key: Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)] | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class Told(Answer, frozen=True):
    id: str
    told: str


def flow_answer(record: FlowRecord) -> FlowAnswer:
    return FlowAnswer(**_fields(record))


def _fields(record: FlowRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "definition": record.definition,
        "status": record.status,
        "queue": record.queue,
        "priority": record.priority,
        "key": record.key,
        "created_at": utc_datetime(record.created_at),
        "start_at": utc_datetime(record.start_at),
        "wake_at": None if record.wake_at is None else utc_datetime(record.wake_at),
        "finished_at": None if record.finished_at is None else utc_datetime(record.finished_at),
    }


@post(
    "/",
    opt=opt(
        summary="Start a flow",
        tag=TAG,
        role="operate",
        description="By goals (steps of the catalogue), or a graph, a workflow, an action or a script by its name. "
        "With a key, starting again with the same input answers the flow that is there.",
        body=Start,
        example=EXAMPLE,
        headers={"Idempotency-Key": "The key, where the body has none."},
        header_schemas={"Idempotency-Key": {"type": "string", "maxLength": LONGEST_KEY, "pattern": PLAIN_TEXT}},
        answers={
            201: Says(FlowAnswer, "It was started.", headers=("Location",)),
            200: Says(FlowAnswer, "It had been started before, with the same key and input.", headers=("Location",)),
        },
        errors=(409, 422),
    ),
)
async def start(request: Request[Any, Any, Any]) -> Response[bytes]:
    body = await read_body(request, Start)
    key = header(request, "Idempotency-Key", LONGEST_KEY)
    if key is not None and body.key not in (None, key):
        raise Refused(422, "the header Idempotency-Key and the body name different keys", pointer="/key")
    started = await start_flow(app_of(request), body, body.key or key)
    headers = {"Location": f"/v1/flows/{started.record.id}"}
    return answer(flow_answer(started.record), 201 if started.is_new else 200, headers)


@get(
    "/",
    opt=opt(
        summary="List flows, newest first",
        tag=TAG,
        role="read",
        query=FlowFilter,
        answers={200: Says(FlowPage, "A page of flows.")},
        errors=(422,),
    ),
)
async def list_flows(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, FlowFilter)
    app = app_of(request)
    query = FlowQuery(
        status=tuple(wanted.status),
        definition=None if wanted.definition is None else await full_name(app, wanted.definition),
        queue=wanted.queue,
        key=wanted.key,
        before=read_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    found = await app.flows(query)
    shown = found[: wanted.limit]
    following = cursor_after(shown[-1].id) if len(found) > len(shown) else None
    return answer(FlowPage(flows=[flow_answer(one) for one in shown], next=following))


@get(
    "/{flow_id:str}",
    opt=opt(
        summary="Look at a flow",
        tag=TAG,
        role="read",
        answers={200: Says(FlowDetails, "The flow, the steps of its graph, and how it ended.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id = path_parameter(request, "flow_id")
    app = app_of(request)
    record = await app.find(flow_id)
    result, error = await _ending(app, record)
    return answer(FlowDetails(**_fields(record), steps=await steps_of(app, flow_id), result=result, error=error))


async def _ending(app: App, record: FlowRecord) -> tuple[msgspec.Raw | None, FlowError | None]:
    lines = await app.log(record.id) if record.status in FINISHED else []
    ending = lines[-1].event if lines else None
    if isinstance(ending, FlowCompleted):
        return ending.result, None
    if isinstance(ending, FlowFailed):
        return None, FlowError(kind=ending.kind, type=ending.error.type, message=ending.error.message)
    return None, None


@get(
    "/{flow_id:str}/explain",
    opt=opt(
        summary="Everything that happened to a flow, and why",
        tag=TAG,
        role="read",
        answers={200: Says(Explanation, "Each attempt, each decision with its reason, and what to do next.")},
        errors=(404,),
    ),
)
async def explain(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id = path_parameter(request, "flow_id")
    return answer(await app_of(request).explain(flow_id))


class Cancelling(Verdict, frozen=True):
    force: bool = False
    """End it at once: none of its code runs any more, and nothing is undone."""


def _verb(name: str, summary: str, body: type[Verdict] = Verdict) -> Any:
    about = opt(
        summary=summary,
        tag=TAG,
        role="operate",
        body=body,
        example={"why": "ordered twice", "by": "anna"},
        answers={202: Says(Told, "It was told, and its worker does so.")},
        errors=(404, 409),
    )

    async def tell(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        said = await read_body(request, body)
        handle: Handle[Any] = app_of(request).handle(flow_id)
        verbs: dict[str, Any] = {"cancel": handle.cancel, "pause": handle.pause, "resume": handle.resume}
        more = {"force": said.force} if isinstance(said, Cancelling) else {}
        await verbs[name](by=by(request, said.by), why=said.why, **more)
        return answer(Told(id=flow_id, told=name), 202)

    return post(f"/{{flow_id:str}}/{name}", name=name, opt=about)(tell)


router = Router(
    "/v1/flows",
    route_handlers=[
        start,
        list_flows,
        show,
        explain,
        _verb("cancel", "Stop a flow: waits end at once, and its code may clean up", Cancelling),
        _verb("pause", "Begin no more attempts of a flow; those that run may end"),
        _verb("resume", "Let a paused flow go on, or a parked one whose code was mended"),
    ],
)
