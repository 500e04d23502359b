"""The log of a flow: page by page, or as a stream."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.response import Stream
from msgspec import Meta

from redrive.explain.log_line import read_id
from redrive.server.access.authentication import caller_of
from redrive.server.context import client_of, context_of, visible_flow
from redrive.server.contract.models import Limit, RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import EVENT_STREAM, ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import path_parameter, read_header, read_query
from redrive.server.streams.flow_events import WHOLE, Place, events_after
from redrive.stores.records import FINISHED

_LARGEST_SEQ = 2**31 - 1


class EventFilter(RequestModel, frozen=True):
    after: Annotated[int, Meta(ge=0, le=_LARGEST_SEQ)] = 0
    """Begin after this line."""
    limit: Limit = 100
    """The number of lines in a page, each with all its events; it does not apply to a stream."""


class EventResponse(ResponseModel, frozen=True):
    """One event of a flow's log: a LogLine, documented without the fields of each type of event."""

    seq: int
    """Counts the lines of the flow, from 1."""
    at: float
    """Epoch seconds."""
    event: dict[str, Any]
    """What happened: `type` names the event, and the other fields depend on it."""
    part: int = 0
    """Counts the events that share a line after the first one, from 1: what the line means for its work item."""


class EventPage(ResponseModel, frozen=True):
    events: list[EventResponse]
    next: int | None
    """The `after` of the next page; null if there are no more events yet."""


@get(
    "/{flow_id:str}/events",
    opt=operation(
        summary="Read the log of a flow",
        tag="flows",
        role="read",
        within_limits=True,
        description="With `Accept: text/event-stream` the events are streamed as they happen, with the number of their "
        "line as their id (7, or 7.1 for what follows from line 7), until the flow has ended; a last event `end` says "
        "how. Last-Event-ID resumes a stream.",
        query=EventFilter,
        headers={"Last-Event-ID": "For a stream: resume after this event."},
        header_schemas={"Last-Event-ID": {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,2})?$"}},
        responses={
            200: ResponseSpec(EventPage, "A page of events, or a stream of them.", also=(EVENT_STREAM,)),
            204: ResponseSpec(None, "For a resumed stream: the flow has ended, and there are no more events."),
        },
        errors=(404,),
    ),
)
async def events(request: Request[Any, Any, Any]) -> Response[Any]:
    flow_id = path_parameter(request, "flow_id")
    context = context_of(request)
    app = context.app
    wanted = read_query(request, EventFilter)
    record = await visible_flow(request, flow_id)
    caller = caller_of(request.scope)
    if not _wants_stream(request):
        found = await events_after(app, flow_id, (wanted.after, WHOLE), wanted.limit + 1, caller)
        lines = list(dict.fromkeys(line.seq for line in found))
        following = lines[wanted.limit - 1] if len(lines) > wanted.limit else None
        shown = found if following is None else [line for line in found if line.seq <= following]
        return json_response({"events": shown, "next": following})
    last = _last_event(request)
    after = (wanted.after, WHOLE) if last is None else last
    if (
        last is not None
        and last > (0, 0)
        and record.status in FINISHED
        and not await events_after(app, flow_id, after, 1, caller)
    ):
        # The only response after which a browser does not reconnect.
        return Response(None, status_code=204)
    stream = await context.streams.begin(app, flow_id, after, caller, client_of(request.scope))
    return Stream(stream, media_type=EVENT_STREAM)


def _wants_stream(request: Request[Any, Any, Any]) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")


def _last_event(request: Request[Any, Any, Any]) -> Place | None:
    text = read_header(request, "Last-Event-ID", 20)
    if text is None:
        return None
    place = read_id(text)
    if place is None or max(place) > _LARGEST_SEQ:
        raise ProblemError(400, "use the id of an event, such as 7 or 7.1", parameter="Last-Event-ID")
    return place


router = Router("/v1/flows", route_handlers=[events])
