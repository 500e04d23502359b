"""The log of a flow: page by page, or as a stream."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.response import Stream
from msgspec import Meta

from redrive.server.authentication import caller_of
from redrive.server.context import context_of
from redrive.server.event_streams import events_after
from redrive.server.models import Limit, RequestModel, ResponseModel, json_response
from redrive.server.operations import ResponseSpec, operation
from redrive.server.problems import ProblemError
from redrive.server.request_parsing import path_parameter, read_header, read_query
from redrive.stores.records import FINISHED

EVENT_STREAM = "text/event-stream"
_LARGEST_SEQ = 2**31 - 1


class EventFilter(RequestModel, frozen=True):
    after: Annotated[int, Meta(ge=0, le=_LARGEST_SEQ)] = 0
    """Begin after this line."""
    limit: Limit = 100
    """The size of a page; it does not apply to a stream."""


class EventResponse(ResponseModel, frozen=True):
    """One line of a flow's log: a LogLine, documented without the fields of each type of event."""

    seq: int
    """Counts the lines of the flow, from 1."""
    at: float
    """Epoch seconds."""
    event: dict[str, Any]
    """What happened: `type` names the event, and the other fields depend on it."""


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
        description="With `Accept: text/event-stream` the events are streamed as they happen, with the line number as "
        "their id, until the flow has ended; a last event `end` says how. Last-Event-ID resumes a stream.",
        query=EventFilter,
        headers={"Last-Event-ID": "For a stream: resume after this line."},
        header_schemas={"Last-Event-ID": {"type": "integer", "minimum": 0, "maximum": _LARGEST_SEQ}},
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
    record = await app.find(flow_id)
    if not _wants_stream(request):
        found = await events_after(app, flow_id, wanted.after, wanted.limit + 1)
        shown = found[: wanted.limit]
        following = shown[-1].seq if len(found) > len(shown) else None
        return json_response({"events": shown, "next": following})
    last = _last_event(request)
    after = wanted.after if last is None else last
    if last and record.status in FINISHED and not await app.store.read_events_after(flow_id, after, 1):
        # The only response after which a browser does not reconnect.
        return Response(None, status_code=204)
    stream = await context.streams.begin(app, flow_id, after, caller_of(request.scope))
    return Stream(stream, media_type=EVENT_STREAM)


def _wants_stream(request: Request[Any, Any, Any]) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")


def _last_event(request: Request[Any, Any, Any]) -> int | None:
    text = read_header(request, "Last-Event-ID", 20)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_SEQ):
        raise ProblemError(400, "use the id of an event, which is a whole number", parameter="Last-Event-ID")
    return int(text)


router = Router("/v1/flows", route_handlers=[events])
