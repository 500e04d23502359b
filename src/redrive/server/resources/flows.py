"""Flows: start, list, get, explain, cancel, pause, resume."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.earlier_runs import read_run
from redrive.client.handle import Handle
from redrive.errors import DefinitionError
from redrive.explain.explanation import Explanation
from redrive.explain.hidden_payloads import hidden_json, hidden_text
from redrive.explain.store_reader import explain_from_store, explain_without_key
from redrive.flows.events import FlowCompleted, FlowFailed
from redrive.flows.retry_policy import as_policy
from redrive.flows.tags import read_tags
from redrive.server.access.api_keys import Caller
from redrive.server.access.audit import audited
from redrive.server.access.authentication import caller_of, operator_name
from redrive.server.context import app_of, context_of, visible_flow
from redrive.server.contract.models import (
    NO_CONTROL_CHARACTERS,
    Cursor,
    Limit,
    OperatorRequest,
    RequestModel,
    ResponseModel,
    json_response,
    large_json_response,
    response_of,
)
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError, unprocessable
from redrive.server.observed.waits import FlowWait, next_rows, wait_of
from redrive.server.requests.cursors import decode_cursor, encode_cursor
from redrive.server.requests.flow_selection import LONGEST_KEY, FlowSelection, flow_query
from redrive.server.requests.flow_start import StartRequest, start_flow
from redrive.server.requests.parsing import decode, path_parameter, read_body, read_bytes, read_header, read_query
from redrive.server.resources.flow_steps import StepResponse, steps_of
from redrive.stores.encoded_text import key_of
from redrive.stores.records import FINISHED, FlowQuery, FlowRecord, FlowStatus, RetryQuery

TAG = "flows"
MOST_COUNTED = 10_000
MOST_ROWS = 10_000
"""Of the retry queue, that are read for one page of flows."""
MOST_PAGES = 20
"""Of the store, that are read for one page of a limited key."""
PLAIN_TEXT = "^[!-~]([ -~]*[!-~])?$"
LONGEST_POLICY = 10_000
NO_EXAMPLE: Mapping[str, str] = MappingProxyType({})
EXAMPLE = {"graph": "order", "inputs": {"order_id": "17"}, "key": "order-17"}


class FlowResponse(ResponseModel, frozen=True):
    """A flow without its input, which may hold secrets; `explain` shows a summary."""

    id: str
    definition: str
    """workflow:Billing, action:charge, graph:order; graph:goals for a flow that was planned by goals."""
    status: FlowStatus
    queue: str
    priority: int
    key: str | None
    concurrency_key: str | None
    created_at: datetime
    start_at: datetime
    wake_at: datetime | None
    """When a waiting flow continues."""
    finished_at: datetime | None
    parent: str | None
    """The id of the flow that started it as a child."""
    batch: str | None
    """The name of the batch that it is a part of."""
    tags: dict[str, str]


class FlowError(ResponseModel, frozen=True):
    """Why a flow failed."""

    kind: str
    type: str
    message: str


class FlowDetails(FlowResponse, frozen=True):
    steps: list[StepResponse]
    """All steps of a graph; for other flows, the actions called so far."""
    children: dict[FlowStatus, int]
    """How many children it has in each state, of the first 10,000; empty for none."""
    result: msgspec.Raw | None
    """Set once the flow has completed; without the role read:payload its size alone."""
    error: FlowError | None
    """Set once the flow has failed."""


class ListedFlow(FlowResponse, frozen=True):
    waits: FlowWait | None
    """Why it does not go on at this moment; null where nothing says so."""


class FlowPage(ResponseModel, frozen=True):
    flows: list[ListedFlow]
    next: str | None
    """The cursor of the next page; null on the last one."""


class FlowFilter(FlowSelection, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 50


class FlowCounted(ResponseModel, frozen=True):
    count: int
    more: bool
    """True if there are more than were counted."""


class ExplainQuery(RequestModel, frozen=True):
    run: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """Explain this run of a flow that continued as new; by default the current one."""
    most: Annotated[int, Meta(ge=2, le=10_000)] | None = None
    """Leave out the middle of longer timelines, of items with more attempts, and of longer lists of events."""


class CountFilter(FlowSelection, frozen=True):
    """The filters of the list, as a query of their own: the document describes a query where it is used only."""


class FlowRequested(ResponseModel, frozen=True):
    id: str
    requested: str


@post(
    "/",
    opt=operation(
        summary="Start a flow",
        tag=TAG,
        role="operate",
        within_limits=True,
        description="Name goals (steps of the catalogue), or a graph, a workflow, an action or a script. "
        "With a key, starting again with the same input returns the existing flow.",
        body=StartRequest,
        example=EXAMPLE,
        headers={
            "Idempotency-Key": "The key, if the body has none.",
            "traceparent": "The W3C trace context that the flow belongs to; one that is not valid is ignored.",
        },
        header_schemas={"Idempotency-Key": {"type": "string", "maxLength": LONGEST_KEY, "pattern": PLAIN_TEXT}},
        responses={
            201: ResponseSpec(FlowResponse, "The flow was started.", headers=("Location",)),
            200: ResponseSpec(
                FlowResponse, "A flow with the same key and input had been started before.", headers=("Location",)
            ),
        },
        errors=(409, 422),
    ),
)
async def start(request: Request[Any, Any, Any]) -> Response[bytes]:
    sent = await read_bytes(request)
    async with context_of(request).large_inputs.turn(len(sent)):
        body = decode(sent, StartRequest)
        key = read_header(request, "Idempotency-Key", LONGEST_KEY)
        if key is not None and body.key not in (None, key):
            raise ProblemError(422, "the header Idempotency-Key and the body name different keys", pointer="/key")
        may_use, traceparent = caller_of(request.scope).may_use, request.headers.get("traceparent")
        started = await start_flow(app_of(request), body, body.key or key, may_use, traceparent)
    headers = {"Location": f"/v1/flows/{started.record.id}"}
    return json_response(
        response_of(FlowResponse, started.record, tags=read_tags(started.record.tags)),
        201 if started.is_new else 200,
        headers,
    )


@get(
    "/",
    opt=operation(
        summary="List flows, newest first",
        live=True,
        tag=TAG,
        role="read",
        within_limits=True,
        query=FlowFilter,
        responses={200: ResponseSpec(FlowPage, "A page of flows.")},
        errors=(422,),
    ),
)
async def list_flows(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, FlowFilter)
    app = app_of(request)
    caller = caller_of(request.scope)
    query = await flow_query(app, wanted, caller, before=decode_cursor(wanted.cursor), limit=wanted.limit + 1)
    shown, last = await _visible(app, query, caller) if caller.is_limited else await _page(app, query)
    following = encode_cursor(last) if last is not None else None
    return json_response(FlowPage(flows=await _with_waits(app, shown), next=following))


async def _with_waits(app: App, shown: list[FlowRecord]) -> list[ListedFlow]:
    open_ids = tuple(one.id for one in shown if one.status not in FINISHED)
    query = RetryQuery(flow_ids=open_ids, limit=MOST_ROWS)
    rows = next_rows(await app.retries(query)) if open_ids else {}
    now = app.now()
    return [
        response_of(ListedFlow, one, tags=read_tags(one.tags), waits=wait_of(one, rows.get(one.id), now))
        for one in shown
    ]


@get(
    "/count",
    opt=operation(
        summary="Count flows",
        tag=TAG,
        role="read",
        query=CountFilter,
        responses={200: ResponseSpec(FlowCounted, f"How many there are; at most {MOST_COUNTED:,} are counted.")},
        errors=(422,),
    ),
)
async def count(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, CountFilter)
    app = app_of(request)
    query = await flow_query(app, wanted, caller_of(request.scope), limit=MOST_COUNTED + 1)
    found = await app.store.count_matching_flows(query)
    return json_response(FlowCounted(count=min(found, MOST_COUNTED), more=found > MOST_COUNTED))


async def _page(app: App, query: FlowQuery) -> tuple[list[FlowRecord], str | None]:
    """Return a page, and the id of its last flow if there are more. The query asks for one more than the page has."""
    found = await app.flows(query)
    shown = found[: query.limit - 1]
    return shown, shown[-1].id if len(found) > len(shown) else None


async def _visible(app: App, query: FlowQuery, caller: Caller) -> tuple[list[FlowRecord], str | None]:
    """Return a page of those flows that are within the limits of the caller's key; it may be a short one."""
    shown: list[FlowRecord] = []
    last: str | None = None
    for _ in range(MOST_PAGES):
        found, last = await _page(app, query)
        for number, record in enumerate(found, 1):
            if caller.may_use(record.queue, record.definition):
                shown.append(record)
                if len(shown) == query.limit - 1:
                    return shown, record.id if last is not None or number < len(found) else None
        if last is None:
            break
        query = msgspec.structs.replace(query, before=last)
    return shown, last


@get(
    "/{flow_id:str}",
    opt=operation(
        summary="Get a flow",
        tag=TAG,
        role="read",
        within_limits=True,
        responses={200: ResponseSpec(FlowDetails, "The flow, its steps, and how it ended.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[Any]:
    flow_id = path_parameter(request, "flow_id")
    app = app_of(request)
    record = await visible_flow(request, flow_id)
    payloads = caller_of(request.scope).sees_payloads
    result, error = await _ending(app, record)
    if not payloads:
        result = result if result is None else hidden_json(result)
        error = error if error is None else msgspec.structs.replace(error, message=hidden_text(error.message))
    steps = await steps_of(app, flow_id, payloads=payloads)
    children = (await app.store.count_children([flow_id], MOST_COUNTED)).get(flow_id, {})
    tags = read_tags(record.tags)
    details = response_of(FlowDetails, record, tags=tags, steps=steps, children=children, result=result, error=error)
    return await large_json_response(details, sum(len(step.items) for step in steps))


async def _ending(app: App, record: FlowRecord) -> tuple[msgspec.Raw | None, FlowError | None]:
    lines = await app.read_lines(record.id) if record.status in FINISHED else []
    ending = lines[-1].event if lines else None
    if isinstance(ending, FlowCompleted):
        return ending.result, None
    if isinstance(ending, FlowFailed):
        return None, FlowError(kind=ending.kind, type=ending.error.type, message=ending.error.message)
    return None, None


@get(
    "/{flow_id:str}/explain",
    opt=operation(
        summary="Explain a flow: what happened, and why",
        live=True,
        passing=("explained_at", "headline"),
        tag=TAG,
        role="read",
        within_limits=True,
        query=ExplainQuery,
        responses={200: ResponseSpec(Explanation, "Each attempt, each decision with its reason, and what to do next.")},
        errors=(404,),
    ),
)
async def explain(request: Request[Any, Any, Any]) -> Response[Any]:
    flow_id = path_parameter(request, "flow_id")
    wanted = read_query(request, ExplainQuery)
    app = app_of(request)
    record = await visible_flow(request, flow_id)
    if (key := key_of(record.input)) is not None:
        return await large_json_response(await explain_without_key(app.store, record, key, app.now()), 0)
    record, lines, current = await read_run(app.store, record, await app.read_lines(flow_id), wanted.run)
    payloads = caller_of(request.scope).sees_payloads
    explanation = await explain_from_store(
        app.store, record, lines, app.now(), payloads, ahead=True, most=wanted.most, current_run=current
    )
    return await large_json_response(explanation, len(explanation.timeline))


class CancelRequest(OperatorRequest, frozen=True):
    force: bool = False
    """End the flow at once: none of its code runs any more, and nothing is compensated."""


class PolicyRequest(OperatorRequest, frozen=True, kw_only=True):
    policy: Annotated[str, Meta(min_length=1, max_length=LONGEST_POLICY)]
    """In any notation, such as "attempts: 10"."""
    step: Annotated[str, Meta(max_length=200, pattern=NO_CONTROL_CHARACTERS)] = ""
    """Only the work of this step or action; empty: all that is under way."""


def _endpoint(
    name: str, summary: str, body: type[OperatorRequest] = OperatorRequest, example: Mapping[str, str] = NO_EXAMPLE
) -> Any:
    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        within_limits=True,
        body=body,
        example={"why": "ordered twice", "by": "anna", **example},
        responses={
            202: ResponseSpec(FlowRequested, "The request is in the flow's inbox, and its worker will carry it out.")
        },
        errors=(404, 409, 422) if body is PolicyRequest else (404, 409),
    )

    async def send(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        wanted = await read_body(request, body)
        await visible_flow(request, flow_id)
        if isinstance(wanted, PolicyRequest):
            try:
                as_policy(wanted.policy)
            except DefinitionError as error:
                raise unprocessable(error, "/policy") from None
        handle: Handle[Any] = app_of(request).handle(flow_id)
        requests: dict[str, Any] = {
            "cancel": handle.cancel,
            "pause": handle.pause,
            "resume": handle.resume,
            "retry": handle.retry_now,
            "policy": handle.change_policy,
        }
        settings = msgspec.structs.asdict(wanted)
        by, why = settings.pop("by"), settings.pop("why")
        async with audited(request, f"flow.{name}", flow_id, by=by, detail=why):
            await requests[name](by=operator_name(request.scope, by), why=why, **settings)
        return json_response(FlowRequested(id=flow_id, requested=name), 202)

    return post(f"/{{flow_id:str}}/{name}", name=name, opt=about)(send)


router = Router(
    "/v1/flows",
    route_handlers=[
        start,
        list_flows,
        count,
        show,
        explain,
        _endpoint("cancel", "Cancel a flow: its waits end, and its code may clean up", CancelRequest),
        _endpoint("pause", "Pause a flow: it begins no more attempts, and running ones may finish"),
        _endpoint("resume", "Resume a paused flow, or a parked one whose code has been fixed"),
        _endpoint(
            "policy",
            "Give the open work of a flow another retry policy, and decide its waits anew",
            PolicyRequest,
            {"why": "the bank is down all day", "policy": "{attempts: 10, max_wait: 30m}"},
        ),
        _endpoint("retry", "Retry now: begin the next attempts of a flow now, instead of when their waits end"),
    ],
)
