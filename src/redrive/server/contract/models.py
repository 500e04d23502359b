"""Base types of request and response bodies, and types that many of them use."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Meta

from redrive.determinism.off_loop import off_loop
from redrive.formatting.times import utc_datetime
from redrive.server.contract.large_responses import ENCODED_AT_ONCE, encode_in_pieces
from redrive.server.settings import LARGEST_PAGE
from redrive.stores.queue_names import CONTROL_CHARACTERS

# With the second half, because in Python alone `$` also matches before a final line break.
NO_CONTROL_CHARACTERS = rf"^[^{CONTROL_CHARACTERS}]*$(?!\n)"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_CONTROL_CHARACTERS)]
Reason = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
OperatorName = Annotated[str, Meta(max_length=200, pattern=NO_CONTROL_CHARACTERS)]
Limit = Annotated[int, Meta(ge=1, le=LARGEST_PAGE)]
Cursor = Annotated[str, Meta(max_length=500)]


SENT_AT_ONCE = 256 * 1024
"""Bytes of a response that are handed to the connection together."""

ModelType = TypeVar("ModelType", bound="ResponseModel")


class RequestModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body or query; unknown fields are refused."""


class ResponseModel(msgspec.Struct, frozen=True, kw_only=True):
    pass


def response_of(kind: type[ModelType], record: Any, **more: Any) -> ModelType:
    """Return the response with the record's fields of the same names, times as datetimes, and `more`."""
    fields = {name: getattr(record, name) for name in kind.__struct_fields__ if name not in more}
    for name, value in fields.items():
        if value is not None and (name in ("at", "since") or name.endswith("_at")):
            fields[name] = utc_datetime(value)
    return kind(**fields, **more)


class NoQuery(RequestModel, frozen=True):
    """The query of an endpoint without parameters."""


class OperatorRequest(RequestModel, frozen=True):
    """What an operator does, with the reason for the log."""

    why: Reason
    by: OperatorName = ""
    """Who does it; the name of the API key is kept beside it."""


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json", headers=headers)


async def large_json_response(value: msgspec.Struct, entries: int) -> Response[Any]:
    """The response for a value that may have very many entries, encoded outside the event loop if it has."""
    body = await off_loop(entries > ENCODED_AT_ONCE, encode_in_pieces, value)
    if len(body) <= SENT_AT_ONCE:
        return Response(body, media_type="application/json")
    length = {"Content-Length": str(len(body))}
    return Stream(_parts(body), media_type="application/json", headers=length)


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for first in range(0, len(body), SENT_AT_ONCE):
        yield body[first : first + SENT_AT_ONCE]
