"""Turn errors into problem+json responses (RFC 9457)."""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from redrive.errors import (
    BatchNotFoundError,
    BatchTakenError,
    DeserializationError,
    FlowFinishedError,
    FlowNotFoundError,
    GraphError,
    InvalidStateError,
    KeyTakenError,
    NotationError,
    RunNotFoundError,
    ScheduleError,
    ScheduleNotFoundError,
    SerializationError,
    StoreError,
    UnknownDefinitionError,
)
from redrive.failures.redaction import redact
from redrive.failures.traces import trace_of

log = logging.getLogger("redrive.server")

MEDIA_TYPE = "application/problem+json"
TYPES: dict[int, str] = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    409: "conflict",
    413: "content-too-large",
    415: "unsupported-media-type",
    422: "unprocessable-content",
    429: "too-many-requests",
    431: "headers-too-large",
    500: "internal-error",
    503: "unavailable",
    505: "http-version-not-supported",
}
_LONGEST_DETAIL = 2000
_LONGEST_SINGLE = 600
_RETRY_STORE_AFTER = "1"


class SingleProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several problems in a request."""

    detail: str
    pointer: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error, as RFC 9457 defines it."""

    type: str
    """The kind of problem: urn:redrive:not-found, ..."""
    title: str
    status: int
    detail: str
    """What is wrong, and what to do instead."""
    pointer: str = ""
    """The field of the body that is wrong, as a JSON pointer."""
    parameter: str = ""
    """The parameter or header that is wrong."""
    line: int | None = None
    """The line of a text in the body that is wrong, from 1."""
    column: int | None = None
    problems: list[SingleProblem] = []
    """All problems, if there are several."""


class ProblemError(Exception):
    """Raised by an endpoint, and sent as a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        pointer: str = "",
        parameter: str = "",
        line: int | None = None,
        column: int | None = None,
        problems: list[SingleProblem] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = dict(headers or {})
        self.problem = Problem(
            type=f"urn:redrive:{TYPES.get(status, 'error')}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=redact(detail, _LONGEST_DETAIL),
            pointer=pointer,
            parameter=parameter,
            line=line,
            column=column,
            problems=problems or [],
        )

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.problem)

    def under(self, pointer: str) -> "ProblemError":
        """The same problem, of a part of the body."""
        singles = [msgspec.structs.replace(one, pointer=pointer + one.pointer) for one in self.problem.problems]
        self.problem = msgspec.structs.replace(self.problem, pointer=pointer + self.problem.pointer, problems=singles)
        return self


def problem_response(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A Litestar exception handler: send any error as a problem."""
    raised = problem_for(error)
    if raised.problem.status >= 500 and not isinstance(error, ProblemError | StoreError):
        # Not the path itself: it may contain an attempt's token.
        path = request.scope.get("path_template", "?")
        log.error("%s %s failed\n%s", request.method, path, trace_of(error))
    return Response(
        raised.body, status_code=raised.problem.status, media_type=MEDIA_TYPE, headers=raised.headers or None
    )


def problem_for(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, StoreError):
        detail = "the store is unavailable; try again in a moment"
        return ProblemError(503, detail, headers={"Retry-After": _RETRY_STORE_AFTER})
    if isinstance(error, FlowNotFoundError):
        return ProblemError(404, f"no flow has the id {error.flow_id}", parameter="flow_id")
    if isinstance(error, RunNotFoundError):
        return ProblemError(404, str(error), parameter="run")
    if isinstance(error, BatchNotFoundError):
        return ProblemError(404, f"there is no batch {error.name!r}", parameter="batch")
    if isinstance(error, ScheduleNotFoundError):
        return ProblemError(
            404, "there is no schedule of this name; GET /v1/schedules lists them", parameter="schedule"
        )
    if isinstance(error, ScheduleError):
        return ProblemError(422, str(error), parameter="schedule")
    if isinstance(error, BatchTakenError):
        return ProblemError(409, str(error), pointer="/name")
    if isinstance(error, FlowFinishedError | InvalidStateError | KeyTakenError | DeserializationError):
        pointer = "/key" if isinstance(error, KeyTakenError) else ""
        return ProblemError(409, str(error), pointer=pointer)
    if isinstance(error, HTTPException):
        return _from_litestar(error)
    return ProblemError(500, "internal error; see the log of the server")


def unprocessable(error: Exception, pointer: str) -> ProblemError:
    """Return the problem for a body that was read but is refused; `pointer` names the part of it that is wrong."""
    errors = error.problems if isinstance(error, GraphError) else [error] if isinstance(error, NotationError) else []
    if errors:
        return unprocessable_all(
            [SingleProblem(redact(str(one), _LONGEST_SINGLE), pointer + json_pointer(one.path)) for one in errors]
        )
    if isinstance(error, UnknownDefinitionError | DeserializationError | SerializationError | ValueError | TypeError):
        return ProblemError(422, str(error), pointer=pointer)
    raise error


def unprocessable_all(problems: list[SingleProblem], pointer: str = "") -> ProblemError:
    """Return the problem for a body with one or several problems."""
    first = problems[0]
    several = problems if len(problems) > 1 else None
    return ProblemError(422, first.detail, pointer=first.pointer or pointer, problems=several)


def json_pointer(path: tuple[str | int, ...]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _from_litestar(error: HTTPException) -> ProblemError:
    headers = dict(error.headers or {})
    status = error.status_code
    if status == 404:
        return ProblemError(404, "nothing is served at this path; see /openapi.json")
    if status == 405:
        return ProblemError(405, f"use one of: {headers.get('allow', '')}", headers={"Allow": headers.get("allow", "")})
    if status == 413:
        return ProblemError(413, "the body is too large")
    if 400 <= status < 500:
        return ProblemError(400, redact(re.sub(r"\s+", " ", error.detail), 300))
    return ProblemError(500, "internal error; see the log of the server")
