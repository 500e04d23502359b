"""Dead letters: list, get, redrive, discard."""

import contextlib
import functools
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.bulk_close import close_in_parts
from redrive.client.definition_names import full_name
from redrive.explain.hidden_payloads import hidden_text
from redrive.flows.flow_end import DeadKind
from redrive.server.access.api_keys import Caller
from redrive.server.access.audit import audited
from redrive.server.access.authentication import caller_of, operator_name
from redrive.server.context import app_of
from redrive.server.contract.models import (
    Cursor,
    Limit,
    Name,
    OperatorRequest,
    RequestModel,
    ResponseModel,
    json_response,
    response_of,
)
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.cursors import decode_cursor, encode_cursor, invalid_cursor
from redrive.server.requests.parsing import path_parameter, read_body, read_query
from redrive.stores.records import DeadLetter, DeadQuery, DeadState

TAG = "dead letters"
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
MOST_SETTLED = 10_000
"""In one request; send another one for the rest."""


class DeadLetterResponse(ResponseModel, frozen=True):
    """A flow that failed for good."""

    flow_id: str
    definition: str
    queue: str
    at: datetime
    kind: str
    """Why it failed: exhausted, permanent, poison, workflow, ..."""
    step: str
    """The step that failed; empty if the flow's own code did."""
    attempts: int
    error_type: str
    message: str
    payload: str
    """A summary of the flow's input, bounded and without secrets."""
    state: DeadState
    by: str | None
    why: str | None
    closed_at: datetime | None


class DeadLetterPage(ResponseModel, frozen=True):
    dead_letters: list[DeadLetterResponse]
    next: str | None
    """The cursor of the next page; null on the last one."""


class Selection(RequestModel, frozen=True):
    """Select the dead letters that match all fields; without any, all of them."""

    definition: Name | None = None
    """Billing, or workflow:Billing, action:charge."""
    step: Name | None = None
    kind: DeadKind | None = None
    error_type: Name | None = None
    queue: Name | None = None
    dependency: Name | None = None


class DeadLetterFilter(Selection, frozen=True):
    state: DeadState = "dead"
    cursor: Cursor | None = None
    limit: Limit = 50


class GroupFilter(Selection, frozen=True):
    state: DeadState = "dead"


class ExampleLetter(ResponseModel, frozen=True):
    """The flow of the group that failed last."""

    flow_id: str
    message: str


class DeadLetterGroup(ResponseModel, frozen=True):
    """Dead letters of the same step with the same error."""

    definition: str
    step: str
    """Empty if the flow's own code failed."""
    dependency: str
    error_type: str
    kind: str
    count: int
    first_at: datetime
    last_at: datetime
    example: ExampleLetter


class DeadLetterGroups(ResponseModel, frozen=True):
    groups: list[DeadLetterGroup]
    """The largest first, at most 1,000."""


class SettleRequest(OperatorRequest, frozen=True):
    """Settle dead letters, selected by exactly one of flows, filter and all."""

    flows: Annotated[list[Name], Meta(min_length=1, max_length=MOST_SETTLED)] | msgspec.UnsetType = msgspec.UNSET
    filter: Selection | msgspec.UnsetType = msgspec.UNSET
    all: bool = False
    dry_run: bool = False
    """Settle nothing, and only count what would be."""


class Settled(ResponseModel, frozen=True):
    settled: list[str]
    """The flows whose dead letters were settled; none in a dry run."""
    count: int
    """How many were settled, or would be."""
    more: bool
    """True if there are more than one request settles: send it again."""


def _response(letter: DeadLetter, caller: Caller) -> DeadLetterResponse:
    if caller.sees_payloads:
        return response_of(DeadLetterResponse, letter)
    hidden = {"message": hidden_text(letter.message), "payload": hidden_text(letter.payload)}
    return response_of(DeadLetterResponse, letter, **hidden)


@get(
    "/",
    opt=operation(
        summary="List dead letters, oldest first",
        live=True,
        tag=TAG,
        role="read",
        within_limits=True,
        query=DeadLetterFilter,
        responses={200: ResponseSpec(DeadLetterPage, "A page of dead letters.")},
        errors=(422,),
    ),
)
async def list_letters(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, DeadLetterFilter)
    after = _decode_position(decode_cursor(wanted.cursor))
    app = app_of(request)
    query = await _query(app, wanted, state=wanted.state, after=after, limit=wanted.limit + 1)
    found = await app.dead_letters(query)
    page = found[: wanted.limit]
    following = encode_cursor(_encode_position(page[-1])) if len(found) > len(page) else None
    caller = caller_of(request.scope)
    # With a limited key a page may be short, or empty before the last one.
    shown = [_response(one, caller) for one in page if caller.may_use(one.queue, one.definition)]
    return json_response(DeadLetterPage(dead_letters=shown, next=following))


@get(
    "/groups",
    opt=operation(
        summary="Group dead letters by step and error, the largest group first",
        live=True,
        tag=TAG,
        role="read",
        query=GroupFilter,
        responses={200: ResponseSpec(DeadLetterGroups, "The groups, each with its latest letter.")},
        errors=(422,),
    ),
)
async def groups(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, GroupFilter)
    app = app_of(request)
    found = await app.store.group_dead_letters(await _query(app, wanted, state=wanted.state))
    payloads = caller_of(request.scope).sees_payloads
    shown = [
        response_of(
            DeadLetterGroup,
            one,
            example=ExampleLetter(flow_id=one.flow_id, message=one.message if payloads else hidden_text(one.message)),
        )
        for one in found
    ]
    return json_response(DeadLetterGroups(groups=shown))


def _encode_position(letter: DeadLetter) -> str:
    return f"{letter.at!r} {letter.flow_id}"


def _decode_position(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    at, _, flow_id = text.partition(" ")
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(at)) < _LATEST:
            return seconds, flow_id
    raise invalid_cursor()


@get(
    "/{flow_id:str}",
    opt=operation(
        summary="Get a dead letter",
        tag=TAG,
        role="read",
        within_limits=True,
        responses={200: ResponseSpec(DeadLetterResponse, "The dead letter, settled or not.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id = path_parameter(request, "flow_id")
    caller = caller_of(request.scope)
    return json_response(_response(await _letter(app_of(request), flow_id, caller), caller))


async def _letter(app: App, flow_id: str, caller: Caller) -> DeadLetter:
    found = await app.dead_letters(DeadQuery(flow_ids=(flow_id,), state=None, limit=1))
    if not found or not caller.may_use(found[0].queue, found[0].definition):
        raise ProblemError(404, f"no dead letter has the flow id {flow_id}", parameter="flow_id")
    return found[0]


async def _query(app: App, selected: Selection, **more: Any) -> DeadQuery:
    filters = {name: getattr(selected, name) for name in Selection.__struct_fields__}
    if selected.definition is not None:
        filters["definition"] = await full_name(app, selected.definition)
    return DeadQuery(**filters, **more)


def _settle_one(verb: str, summary: str) -> Any:
    async def settle(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        body = await read_body(request, OperatorRequest)
        app = app_of(request)
        caller = caller_of(request.scope)
        letter = await _letter(app, flow_id, caller)
        async with audited(request, f"dead.{verb}", flow_id, by=body.by, detail=body.why):
            if not await _verb(app, verb)([flow_id], by=operator_name(request.scope, body.by), why=body.why):
                known = (await _letter(app, flow_id, caller)) if letter.state == "dead" else letter
                raise ProblemError(409, f"flow {flow_id} is no longer dead: it was {known.state} by {known.by}")
        return json_response(_response(await _letter(app, flow_id, caller), caller))

    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        within_limits=True,
        body=OperatorRequest,
        example={"why": "the bank is back", "by": "anna"},
        responses={200: ResponseSpec(DeadLetterResponse, "The dead letter, as settled.")},
        errors=(404, 409),
    )
    return post(f"/{{flow_id:str}}/{verb}", name=f"{verb}_one", opt=about, status_code=200)(settle)


def _settle_many(verb: str, summary: str) -> Any:
    async def settle_many(request: Request[Any, Any, Any]) -> Response[bytes]:
        wanted = await read_body(request, SettleRequest)
        app = app_of(request)
        selected, more = await _select(app, wanted, caller_of(request.scope))
        if wanted.dry_run:
            still_dead = await _count_dead(app, selected) if wanted.flows else len(selected)
            return json_response(Settled(settled=[], count=still_dead, more=more))
        who = operator_name(request.scope, wanted.by)
        record = functools.partial(audited, request, f"dead.{verb}", by=wanted.by, detail=wanted.why)
        settled = await close_in_parts(_verb(app, verb), selected, record, by=who, why=wanted.why)
        return json_response(Settled(settled=settled, count=len(settled), more=more))

    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        within_limits=True,
        description=f"Select them by flow ids, by a filter, or all; at most {MOST_SETTLED:,} in one request.",
        body=SettleRequest,
        example={"filter": {"step": "charge"}, "why": "the bank is back", "by": "anna"},
        responses={200: ResponseSpec(Settled, "The flows whose dead letters were settled.")},
        errors=(422,),
    )
    return post(f"/{verb}", name=f"{verb}_many", opt=about, status_code=200)(settle_many)


def _verb(app: App, verb: str) -> Any:
    return app.redrive if verb == "redrive" else app.discard


async def _select(app: App, wanted: SettleRequest, caller: Caller) -> tuple[list[str], bool]:
    """Return the flow ids, and whether there are more."""
    by_flows, by_filter = isinstance(wanted.flows, list), isinstance(wanted.filter, Selection)
    if [by_flows, by_filter, wanted.all].count(True) != 1:
        raise ProblemError(422, 'select dead letters with exactly one of flows, filter and "all": true')
    if wanted.filter == Selection():
        raise ProblemError(422, 'the filter is empty; to select all dead letters, give "all": true', pointer="/filter")
    if isinstance(wanted.flows, list):
        ids = list(dict.fromkeys(wanted.flows))
        if caller.is_limited:
            records = await app.store.find_flows(ids)
            ids = [one for one in ids if one in records and caller.may_use(records[one].queue, records[one].definition)]
        return ids, False
    query = await _query(app, wanted.filter if isinstance(wanted.filter, Selection) else Selection(), limit=1000)
    # A dict: a flow that dies again meanwhile is listed twice.
    selected: dict[str, None] = {}
    while len(selected) < MOST_SETTLED and (page := await app.dead_letters(query)):
        selected |= dict.fromkeys(one.flow_id for one in page if caller.may_use(one.queue, one.definition))
        query = msgspec.structs.replace(query, after=page[-1].cursor)
    return list(selected)[:MOST_SETTLED], len(selected) >= MOST_SETTLED


async def _count_dead(app: App, flow_ids: list[str]) -> int:
    return len(await app.dead_letters(DeadQuery(flow_ids=tuple(flow_ids), limit=MOST_SETTLED))) if flow_ids else 0


router = Router(
    "/v1/dead-letters",
    route_handlers=[
        list_letters,
        groups,
        show,
        _settle_one("redrive", "Redrive a dead flow: it continues at the step that failed"),
        _settle_one("discard", "Discard a dead letter: the flow stays failed"),
        _settle_many("redrive", "Redrive dead flows: each continues at the step that failed"),
        _settle_many("discard", "Discard dead letters: the flows stay failed"),
    ],
)
