"""Cancel, pause, resume, retry or redrive many flows, selected by the filters of their list."""

import functools
from typing import Any

import msgspec
from litestar import Request, Response, Router, post

from redrive.client.app import App
from redrive.client.bulk_actions import MAY, PAGE, Action
from redrive.server.access.api_keys import Caller
from redrive.server.access.audit import audited
from redrive.server.access.authentication import caller_of, operator_name
from redrive.server.context import app_of
from redrive.server.contract.models import Cursor, OperatorRequest, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.cursors import decode_cursor, encode_cursor
from redrive.server.requests.flow_selection import FlowSelection, flow_query
from redrive.server.requests.parsing import read_body
from redrive.stores.records import FlowQuery, FlowRecord

MOST_DONE = 1000
"""Flows that one request acts on; send another one for the rest."""
MOST_COUNTED = 10_000
RECORDED_AT_ONCE = 100
"""Flows whose entries in the audit log are written together, before they are acted on."""


class BulkRequest(OperatorRequest, frozen=True, kw_only=True):
    """Act on all flows that match, newest first."""

    action: Action
    """retry: begin the next attempts now, instead of when their waits end. redrive: put what failed back to work."""
    filter: FlowSelection
    """At least one field."""
    dry_run: bool = False
    """Only count them."""
    cursor: Cursor | None = None
    """Go on after the request before: its `next`."""


class BulkResponse(ResponseModel, frozen=True):
    count: int
    """How many flows this request looked at that match, and are in a state for the action."""
    done: int
    """How many of them were asked; the others had ended meanwhile, or had no attempt to retry."""
    more: bool
    """True if there are more: send it again, with `next` as the cursor."""
    next: str | None


@post(
    "/bulk",
    status_code=200,
    opt=operation(
        summary="Cancel, pause, resume, retry or redrive many flows",
        tag="flows",
        role="operate",
        within_limits=True,
        description=f"A request acts on at most {MOST_DONE:,} flows; a dry run counts up to {MOST_COUNTED:,}.",
        body=BulkRequest,
        example={"action": "retry", "filter": {"definition": "Billing"}, "why": "the bank is back", "by": "anna"},
        responses={200: ResponseSpec(BulkResponse, "The requests are in the flows' inboxes.")},
        errors=(422,),
    ),
)
async def bulk(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = await read_body(request, BulkRequest)
    if wanted.filter == FlowSelection():
        detail = "the filter is empty; name at least one field, such as status, so that not all flows are meant"
        raise ProblemError(422, detail, pointer="/filter")
    app, caller = app_of(request), caller_of(request.scope)
    query = await flow_query(
        app, wanted.filter, caller, MAY[wanted.action], before=decode_cursor(wanted.cursor), limit=PAGE
    )
    most = MOST_COUNTED if wanted.dry_run else MOST_DONE
    # Without a status left, the query would select all of them.
    selected, last = await _select(app, query, caller, most) if query.status else ([], None)
    done = 0
    if not wanted.dry_run:
        by = operator_name(request.scope, wanted.by)
        record = functools.partial(audited, request, f"flow.{wanted.action}", by=wanted.by, detail=wanted.why)
        for first in range(0, len(selected), RECORDED_AT_ONCE):
            part = selected[first : first + RECORDED_AT_ONCE]
            async with record(part):
                done += await app._bulk.send(wanted.action, part, by, wanted.why)
    following = None if last is None else encode_cursor(last)
    return json_response(BulkResponse(count=len(selected), done=done, more=last is not None, next=following))


async def _select(app: App, query: FlowQuery, caller: Caller, most: int) -> tuple[list[str], str | None]:
    """Return the ids of up to `most` flows, and the last one that was looked at if there may be more."""
    selected: list[str] = []
    for _ in range(most // PAGE):
        page = await app.flows(query)
        selected += [one.id for one in page if _may_use(caller, one)]
        if len(page) < PAGE:
            return selected, None
        query = msgspec.structs.replace(query, before=page[-1].id)
    return selected, query.before


def _may_use(caller: Caller, record: FlowRecord) -> bool:
    return caller.may_use(record.queue, record.definition)


router = Router("/v1/flows", route_handlers=[bulk])
