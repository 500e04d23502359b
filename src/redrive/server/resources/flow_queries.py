"""Queries and updates of flows: what a flow's own code answers."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, post

from redrive.errors import (
    DeserializationError,
    FlowError,
    FlowFinishedError,
    InvalidStateError,
    SerializationError,
    SignalRefusedError,
    StoreError,
    UnknownDefinitionError,
    UnknownHandlerError,
    UpdateTimeoutError,
    WorkflowCodeError,
)
from redrive.flows.workflows.handlers import LONGEST_NAME
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of, visible_flow
from redrive.server.contract.models import OperatorName, RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import path_parameter, read_body, read_header
from redrive.server.resources.flow_signals import LONGEST_ID
from redrive.server.resources.flows import PLAIN_TEXT

LONGEST_TIMEOUT = 60.0


class QueryAnswer(ResponseModel, frozen=True):
    id: str
    """The flow."""
    query: str
    answer: Any


class UpdateAnswer(ResponseModel, frozen=True):
    id: str
    """The flow."""
    update: str
    result: Any


class UpdateSent(ResponseModel, frozen=True):
    id: str
    """The flow."""
    update: str


class QueryRequest(RequestModel, frozen=True):
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    """By name."""


class UpdateRequest(RequestModel, frozen=True):
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    """By name."""
    timeout: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_TIMEOUT)] = 20.0
    """How long to wait for the answer, in seconds."""
    by: OperatorName = ""
    """Who sends it; the name of the API key is kept beside it."""


@post(
    "/{flow_id:str}/queries/{name:str}",
    opt=operation(
        summary="Ask a flow something",
        description="The flow is not changed, and may have ended. The server answers, by replaying the flow's log, so "
        "it has to be started with the module that defines the workflow.",
        tag="flows",
        role="read:payload",
        within_limits=True,
        changes_nothing=True,
        body=QueryRequest,
        example={"arguments": {}},
        responses={200: ResponseSpec(QueryAnswer, "The answer.")},
        errors=(404, 409, 422),
    ),
)
async def query(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id, name = path_parameter(request, "flow_id"), _name(request)
    wanted = await read_body(request, QueryRequest)
    await visible_flow(request, flow_id)
    try:
        answer = await app_of(request).query(flow_id, name, wanted.arguments)
    except UnknownDefinitionError as error:
        lacking = f"this server lacks the code of the {error.kind} {error.name!r}; start it with: redrive serve MODULE"
        raise ProblemError(409, lacking) from None
    except UnknownHandlerError as error:
        raise ProblemError(422, str(error), parameter="name") from None
    except (DeserializationError, SerializationError) as error:
        raise ProblemError(422, str(error), pointer="/arguments") from None
    except WorkflowCodeError as error:
        raise ProblemError(409, str(error)) from None
    except (StoreError, FlowError):
        raise
    except Exception as error:
        raise ProblemError(422, f"the query {name!r} raised {type(error).__name__}: {error}") from error
    return json_response(QueryAnswer(id=flow_id, query=name, answer=answer))


@post(
    "/{flow_id:str}/updates/{name:str}",
    opt=operation(
        summary="Update a flow and get its answer",
        description="The update is stored, and the answer waits until the workflow has carried it out. Sent again with "
        "the same Idempotency-Key, it takes effect once and is answered again.",
        tag="flows",
        role="operate",
        within_limits=True,
        body=UpdateRequest,
        example={"arguments": {"street": "Elm 1"}, "timeout": 10},
        headers={"Idempotency-Key": "An update that is sent again with the same key takes effect once."},
        header_schemas={"Idempotency-Key": {"type": "string", "maxLength": LONGEST_ID, "pattern": PLAIN_TEXT}},
        responses={
            200: ResponseSpec(UpdateAnswer, "What the workflow returned."),
            202: ResponseSpec(UpdateSent, "It was not answered in time; it is in the flow's inbox."),
        },
        errors=(404, 409, 422),
    ),
)
async def update(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id, name = path_parameter(request, "flow_id"), _name(request)
    wanted = await read_body(request, UpdateRequest)
    await visible_flow(request, flow_id)
    key = read_header(request, "Idempotency-Key", LONGEST_ID)
    by = operator_name(request.scope, wanted.by)
    settings: dict[str, Any] = {"timeout": wanted.timeout, "update_id": key or None, "by": by}
    async with audited(request, "flow.update", flow_id, by=wanted.by, detail=name):
        try:
            result = await app_of(request).update(flow_id, name, wanted.arguments, **settings)
        except UpdateTimeoutError:
            return json_response(UpdateSent(id=flow_id, update=name), 202)
        except SignalRefusedError as error:
            raise ProblemError(422, str(error), pointer="/arguments") from None
        except (StoreError, FlowFinishedError, InvalidStateError):
            raise
        except Exception as error:
            raise ProblemError(422, f"the update {name!r} failed: {type(error).__name__}: {error}") from error
    return json_response(UpdateAnswer(id=flow_id, update=name, result=result))


def _name(request: Request[Any, Any, Any]) -> str:
    name = path_parameter(request, "name")
    if len(name) > LONGEST_NAME:
        raise ProblemError(422, f"the name has at most {LONGEST_NAME} characters", parameter="name")
    return name


router = Router("/v1/flows", route_handlers=[query, update])
