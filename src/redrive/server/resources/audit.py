"""The audit log: who did what, when and from where."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, get
from msgspec import Meta

from redrive.server.context import app_of
from redrive.server.contract.models import Limit, Name, RequestModel, ResponseModel, json_response, response_of
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.requests.parsing import read_query
from redrive.stores.audit import AuditQuery

_LARGEST_ID = 2**53


class AuditEntryResponse(ResponseModel, frozen=True):
    id: int
    at: datetime
    actor: str
    """Who: the API key, or the user of the command line, and the name that they gave."""
    origin: str
    """From where: the address of the client, or the machine of the command line."""
    action: str
    """What: key.add, step.register, queue.limit, flow.cancel, dead.redrive, ..."""
    target: str
    """To what: a flow, a key, a step, a queue."""
    detail: str
    """The reason given; "refused: ..." where it was not done."""


class AuditPage(ResponseModel, frozen=True):
    entries: list[AuditEntryResponse]
    next: int | None
    """The `before` of the next page; null on the last one."""


class AuditFilter(RequestModel, frozen=True):
    action: Name | None = None
    target: Name | None = None
    """Only what was done to this flow (and its steps), key, step or queue."""
    before: Annotated[int, Meta(ge=0, le=_LARGEST_ID)] | None = None
    """Begin before this entry."""
    limit: Limit = 50


@get(
    "/",
    opt=operation(
        summary="List the audit log, newest first",
        tag="audit",
        role="admin",
        description="What was done with keys, to the catalogue, to queues and to flows, over the HTTP API and on the "
        "command line. Entries are removed after 400 days, and beyond 100,000.",
        query=AuditFilter,
        responses={200: ResponseSpec(AuditPage, "A page of entries.")},
    ),
)
async def audit_log(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, AuditFilter)
    query = AuditQuery(action=wanted.action, target=wanted.target, before=wanted.before, limit=wanted.limit + 1)
    found = await app_of(request).store.list_audit_entries(query)
    shown = found[: wanted.limit]
    following = shown[-1].id if len(found) > len(shown) else None
    return json_response(AuditPage(entries=[response_of(AuditEntryResponse, one) for one in shown], next=following))


router = Router("/v1/audit", route_handlers=[audit_log])
