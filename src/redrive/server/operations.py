"""Describe an endpoint: who may use it, what it takes, what it returns. The OpenAPI document is built from this."""

from typing import Any

import msgspec

from redrive.server.api_keys import Role


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
    return {"operation": Operation(**fields)}
