"""Answer `Accept: text/event-stream` at endpoints that are live: `operation(..., live=True)`."""

from collections.abc import AsyncIterator
from typing import Any, cast

from litestar import Request, Response
from litestar.response import Stream

from redrive.server.access.authentication import caller_of
from redrive.server.context import client_of, context_of
from redrive.server.contract.operations import EVENT_STREAM, Operation
from redrive.server.requests.parsing import read_header

LONGEST_ID = 100


async def live_snapshots(request: Request[Any, Any, Any]) -> Stream | None:
    """Return the stream of an endpoint's answers; None if an ordinary answer is wanted. Litestar calls it first."""
    handler = request.scope["route_handler"]
    operation: Operation | None = handler.opt.get("operation")
    if operation is None or not operation.live or EVENT_STREAM not in request.headers.get("accept", ""):
        return None

    async def ask() -> bytes:
        return await _body_of(await handler.fn(request))

    what = f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
    last_id = read_header(request, "Last-Event-ID", LONGEST_ID)
    client = client_of(request.scope)
    stream = await context_of(request).live_views.begin(
        what, ask, caller_of(request.scope), client, last_id, operation.passing
    )
    return Stream(stream, media_type=EVENT_STREAM)


async def _body_of(response: Response[Any]) -> bytes:
    if isinstance(response, Stream):
        parts: AsyncIterator[bytes] = cast("AsyncIterator[bytes]", response.iterator)
        return b"".join([part async for part in parts])
    body: bytes = response.content
    return body
