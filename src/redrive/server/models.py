"""Base types of request and response bodies, and types that many of them use."""

from typing import Annotated, Any

import msgspec
from litestar import Response
from msgspec import Meta

from redrive.server.settings import LARGEST_PAGE
from redrive.stores.queue_names import CONTROL_CHARACTERS

# With the second half, because in Python alone `$` also matches before a final line break.
NO_CONTROL_CHARACTERS = rf"^[^{CONTROL_CHARACTERS}]*$(?!\n)"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_CONTROL_CHARACTERS)]
Reason = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
OperatorName = Annotated[str, Meta(max_length=200, pattern=NO_CONTROL_CHARACTERS)]
Limit = Annotated[int, Meta(ge=1, le=LARGEST_PAGE)]
Cursor = Annotated[str, Meta(max_length=500)]


class RequestModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body or query; unknown fields are refused."""


class ResponseModel(msgspec.Struct, frozen=True, kw_only=True):
    pass


class NoQuery(RequestModel, frozen=True):
    """The query of an endpoint without parameters."""


class OperatorRequest(RequestModel, frozen=True):
    """What an operator does, with the reason for the log."""

    why: Reason
    by: OperatorName = ""
    """Who does it; the name of the API key is kept beside it."""


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json", headers=headers)
