"""Describe an endpoint: who may use it, what it takes, what it returns. The OpenAPI document is built from this."""

from typing import Any

import msgspec

from redrive.server.access.api_keys import Role

EVENT_STREAM = "text/event-stream"
_LIVE = "With `Accept: text/event-stream` the answer is streamed as events `snapshot`, each time that it changes."
_RESUME = "For a stream: the snapshot that the client has; it is not sent again."


class ResponseSpec(msgspec.Struct, frozen=True):
    """A response, for the OpenAPI document."""

    kind: Any
    """The type of the body; None if there is none."""
    text: str
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Media types that the response may have instead."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    tag: str
    role: Role | None
    """The role that a caller needs; None if the endpoint is open to all, without a key."""
    within_limits: bool = False
    """Whether the endpoint keeps to the queues and definitions of a limited key; all others refuse such keys."""
    responses: dict[int, ResponseSpec]
    errors: tuple[int, ...] = ()
    """Error statuses, besides those that every endpoint may return."""
    live: bool = False
    """Whether the endpoint also streams its answer, whenever that changes: to `Accept: text/event-stream`."""
    passing: tuple[str, ...] = ("at",)
    """Fields of the answer that follow the clock: if nothing else has changed, a stream sends no new snapshot."""
    changes_nothing: bool = False
    """Whether the endpoint may be used where all is read-only, though it is no GET."""
    description: str = ""
    body: Any = None
    query: Any = None
    headers: dict[str, str] = {}
    """Request headers that the endpoint reads -> what they are for."""
    header_schemas: dict[str, Any] = {}
    """The JSON Schemas of headers that are not plain text."""
    example: Any = None
    """An example of the body."""


def operation(**fields: Any) -> dict[str, Any]:
    """Return the `opt` of a Litestar handler: `@get(..., opt=operation(summary=..., ...))`."""
    made = Operation(**fields)
    return {"operation": _with_stream(made) if made.live else made}


def _with_stream(made: Operation) -> Operation:
    return msgspec.structs.replace(
        made,
        description=f"{made.description} {_LIVE}".strip(),
        headers={**made.headers, "Last-Event-ID": _RESUME},
        responses={
            status: msgspec.structs.replace(spec, also=(*spec.also, EVENT_STREAM))
            for status, spec in made.responses.items()
        },
    )
