"""The one place where errors become answers: problem+json, never a traceback."""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from redrive.errors import (
    DeserializationError,
    FlowFinishedError,
    FlowNotFoundError,
    GraphError,
    InvalidStateError,
    KeyTakenError,
    NotationError,
    SerializationError,
    StoreError,
    UnknownDefinitionError,
)
from redrive.failures.redaction import redact
from redrive.failures.traces import trace_of

log = logging.getLogger("redrive.server")

MEDIA_TYPE = "application/problem+json"
KINDS: dict[int, str] = {
    400: "bad-request",
    401: "no-key",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    409: "conflict",
    413: "too-large",
    415: "not-json",
    422: "refused",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
}
_LONGEST_DETAIL = 2000
_LONGEST_FLAW = 600
_RETRY_AFTER_AWAY = "1"


class Flaw(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several problems."""

    detail: str
    pointer: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, after RFC 9457."""

    type: str
    """Its kind: urn:redrive:not-found, ..."""
    title: str
    status: int
    detail: str
    """In one line: what, and what to do instead."""
    pointer: str = ""
    """The field of the body it is about, as a JSON pointer."""
    parameter: str = ""
    """The parameter or header it is about."""
    problems: list[Flaw] = []
    """All of them, where there are several."""


class Refused(Exception):
    """Becomes an answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        pointer: str = "",
        parameter: str = "",
        problems: list[Flaw] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = dict(headers or {})
        self.problem = Problem(
            type=f"urn:redrive:{KINDS.get(status, 'error')}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=redact(detail, _LONGEST_DETAIL),
            pointer=pointer,
            parameter=parameter,
            problems=problems or [],
        )

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.problem)


def answer_for(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """For Litestar: the answer to whatever was raised."""
    refused = refusal(error)
    if refused.problem.status >= 500 and not isinstance(error, Refused | StoreError):
        # Not the path itself: the token of an attempt may stand in it.
        path = request.scope.get("path_template", "?")
        log.error("%s %s failed\n%s", request.method, path, trace_of(error))
    return Response(
        refused.body, status_code=refused.problem.status, media_type=MEDIA_TYPE, headers=refused.headers or None
    )


def refusal(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, StoreError):
        detail = "the store cannot be used now; try again in a moment"
        return Refused(503, detail, headers={"Retry-After": _RETRY_AFTER_AWAY})
    if isinstance(error, FlowNotFoundError):
        return Refused(404, f"no flow has the id {error.flow_id}", parameter="flow_id")
    if isinstance(error, FlowFinishedError | InvalidStateError | KeyTakenError | DeserializationError):
        pointer = "/key" if isinstance(error, KeyTakenError) else ""
        return Refused(409, str(error), pointer=pointer)
    if isinstance(error, HTTPException):
        return _from_litestar(error)
    return Refused(500, "something went wrong here; the server's log tells more")


def unfit(error: Exception, pointer: str) -> Refused:
    """The answer to a body that can be read, but not be carried out: `pointer` says which part of it."""
    found = error.problems if isinstance(error, GraphError) else [error] if isinstance(error, NotationError) else []
    if found:
        flaws = [Flaw(redact(str(one), _LONGEST_FLAW), pointer + json_pointer(one.path)) for one in found]
        return Refused(422, flaws[0].detail, pointer=flaws[0].pointer, problems=flaws if len(flaws) > 1 else None)
    if isinstance(error, UnknownDefinitionError | DeserializationError | SerializationError | ValueError | TypeError):
        return Refused(422, str(error), pointer=pointer)
    raise error


def json_pointer(path: tuple[str | int, ...]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _from_litestar(error: HTTPException) -> Refused:
    headers = dict(error.headers or {})
    status = error.status_code
    if status == 404:
        return Refused(404, "there is nothing at this path; see /openapi.json")
    if status == 405:
        return Refused(405, f"use one of: {headers.get('allow', '')}", headers={"Allow": headers.get("allow", "")})
    if status == 413:
        return Refused(413, "the body is too large")
    if 400 <= status < 500:
        return Refused(400, redact(re.sub(r"\s+", " ", error.detail), 300))
    return Refused(500, "something went wrong here; the server's log tells more")
