"""What an endpoint says about itself: who may use it, what it takes, what it answers. OpenAPI is made from this."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from msgspec import Meta

from redrive.server.keys import Caller, Role
from redrive.server.settings import MOST_LISTED
from redrive.stores.queue_names import CONTROL_CHARACTERS

CALLER = "redrive.caller"
"""Where the gate puts who asks."""
# With the second half, because in Python alone `$` lets a last line break pass.
CONTROL = rf"^[^{CONTROL_CHARACTERS}]*$(?!\n)"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=CONTROL)]
Reason = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
Who = Annotated[str, Meta(max_length=200, pattern=CONTROL)]
Limit = Annotated[int, Meta(ge=1, le=MOST_LISTED)]
Cursor = Annotated[str, Meta(max_length=500)]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body or a query: what it does not know is refused."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Says(msgspec.Struct, frozen=True):
    """An answer, for the document."""

    kind: Any
    """None: it has no body."""
    text: str
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Media types that it may have instead."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    summary: str
    tag: str
    role: Role | None
    """Who may; None: everyone, without a key."""
    answers: dict[int, Says]
    errors: tuple[int, ...] = ()
    """Beside those that every endpoint may answer."""
    description: str = ""
    body: Any = None
    query: Any = None
    headers: dict[str, str] = {}
    """Headers that it reads, and what they are for,"""
    header_schemas: dict[str, Any] = {}
    """and what they look like, where that is no plain text."""
    example: Any = None
    """Of the body."""


def opt(**about: Any) -> dict[str, Any]:
    """For `@get(..., opt=opt(summary=..., ...))`."""
    return {"operation": Operation(**about)}


class Verdict(Ask, frozen=True):
    """What an operator does, for whoever reads it later."""

    why: Reason
    by: Who = ""
    """Who does it; beside it the name of the API key is kept."""


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json", headers=headers)


def by(request: Request[Any, Any, Any], name: str) -> str:
    """Who did it, for the log of a flow: as they say, and by which key."""
    scope: Any = request.scope
    caller: Caller = scope[CALLER]
    if not caller.id:
        return name or "someone on this machine"
    key = f"key {caller.name}"
    return f"{name} ({key})" if name else key
