"""The log of a flow: page by page, or as it happens."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.response import Stream
from msgspec import Meta

from redrive.server.operations import CALLER, Answer, Ask, Limit, Says, answer, opt
from redrive.server.problems import Refused
from redrive.server.reading import header, path_parameter, read_query
from redrive.server.served import served
from redrive.server.streams import EventView, events_after
from redrive.stores.records import FINISHED

EVENT_STREAM = "text/event-stream"
_LARGEST_SEQ = 2**31 - 1


class EventFilter(Ask, frozen=True):
    after: Annotated[int, Meta(ge=0, le=_LARGEST_SEQ)] = 0
    """The line behind which to begin."""
    limit: Limit = 100
    """Of a page; a stream has none."""


class EventPage(Answer, frozen=True):
    events: list[EventView]
    next: int | None
    """For `after`, to read on; null when these are all there are by now."""


@get(
    "/{flow_id:str}/events",
    opt=opt(
        summary="The log of a flow",
        tag="flows",
        role="read",
        description="With `Accept: text/event-stream` the events come as they happen, each with its line as the id, "
        "until the flow has ended; a last event `end` says how. Last-Event-ID goes on from there.",
        query=EventFilter,
        headers={"Last-Event-ID": "Of a stream: the line behind which to go on."},
        header_schemas={"Last-Event-ID": {"type": "integer", "minimum": 0, "maximum": _LARGEST_SEQ}},
        answers={
            200: Says(EventPage, "A page of events, or the stream of them.", also=(EVENT_STREAM,)),
            204: Says(None, "Of a stream that goes on: the flow has ended, and there is nothing more."),
        },
        errors=(404,),
    ),
)
async def events(request: Request[Any, Any, Any]) -> Response[Any]:
    flow_id = path_parameter(request, "flow_id")
    shared = served(request)
    app = shared.app
    wanted = read_query(request, EventFilter)
    record = await app.find(flow_id)
    if not _wants_stream(request):
        found = await events_after(app, flow_id, wanted.after, wanted.limit + 1)
        shown = found[: wanted.limit]
        following = shown[-1].seq if len(found) > len(shown) else None
        return answer(EventPage(events=shown, next=following))
    last = _last_event(request)
    after = wanted.after if last is None else last
    if last and record.status in FINISHED and not await app.store.read_events_after(flow_id, after, 1):
        # The one answer after which a browser does not come back.
        return Response(None, status_code=204)
    scope: Any = request.scope
    return Stream(await shared.streams.begin(app, flow_id, after, scope[CALLER]), media_type=EVENT_STREAM)


def _wants_stream(request: Request[Any, Any, Any]) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")


def _last_event(request: Request[Any, Any, Any]) -> int | None:
    text = header(request, "Last-Event-ID", 20)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_SEQ):
        raise Refused(400, "use the id of an event, a whole number", parameter="Last-Event-ID")
    return int(text)


router = Router("/v1/flows", route_handlers=[events])
