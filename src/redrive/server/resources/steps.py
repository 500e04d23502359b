"""The catalogue of steps, from which flows are planned by their goals."""

from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, get, post

from redrive.client.catalogue import BrokenStep
from redrive.explain.hidden_payloads import hidden_json
from redrive.flows.graphs.notation.step_writing import step_as_data
from redrive.flows.graphs.spec import StepSpec
from redrive.server.access.audit import audited
from redrive.server.access.authentication import caller_of
from redrive.server.context import app_of
from redrive.server.contract.models import NoQuery, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError, unprocessable
from redrive.server.requests.parsing import path_parameter, read_body, read_query

TAG = "steps"
EXAMPLE = {
    "name": "reserve",
    "endpoint": "https://shop.example.com/reserve",
    "inputs": {"order_id": "string", "warehouse": {"type": "string", "default": "north"}},
    "outputs": {"reservation": "string"},
    "work_config": {"max_retries": 3, "backoff": 1000, "backoff_type": "exponential"},
    "timeout": "30s",
}


Step = dict[str, Any]
"""A step in the form in which it can be registered."""


class StepList(ResponseModel, frozen=True):
    steps: list[Step]


@post(
    "/",
    opt=operation(
        summary="Register a step, replacing one of the same name",
        tag=TAG,
        role="admin",
        description="The step is written as in a graph, plus its name. Running flows keep the step they began with.",
        body=Step,
        example=EXAMPLE,
        responses={
            201: ResponseSpec(Step, "The step was added."),
            200: ResponseSpec(Step, "The step replaced an earlier one."),
        },
        errors=(422,),
    ),
)
async def register(request: Request[Any, Any, Any]) -> Response[bytes]:
    body = await read_body(request, Step)
    app = app_of(request)
    async with audited(request, "step.register", str(body.get("name", ""))):
        try:
            is_new = await app.register_step(body)
        except (LookupError, ValueError, TypeError) as error:
            raise unprocessable(error, "") from None
    return json_response(await _step(request, str(body["name"])), 201 if is_new else 200)


@get(
    "/",
    opt=operation(
        summary="List the steps of the catalogue",
        tag=TAG,
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(StepList, "All steps, by name; one that cannot be read says why in `broken`.")},
    ),
)
async def list_steps(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    return json_response(StepList(steps=[_as_data(request, step) for step in await app_of(request).catalogue()]))


@get(
    "/{name:str}",
    opt=operation(
        summary="Get a step",
        tag=TAG,
        role="read",
        responses={200: ResponseSpec(Step, "The step, in the form in which it can be registered.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    name = path_parameter(request, "name")
    return json_response(await _step(request, name))


async def _step(request: Request[Any, Any, Any], name: str) -> Step:
    for step in await app_of(request).catalogue():
        if step.name == name:
            return _as_data(request, step)
    raise _unknown(name)


def _as_data(request: Request[Any, Any, Any], spec: StepSpec | BrokenStep) -> Step:
    """Return the step; without the role read:payload, with the sizes of its constants and defaults."""
    if isinstance(spec, BrokenStep):
        return {"name": spec.name, "broken": spec.broken}
    step = step_as_data(spec)
    if not caller_of(request.scope).sees_payloads:
        for given in step["inputs"].values():
            for field in ("value", "default"):
                if isinstance(given, dict) and field in given:
                    given[field] = hidden_json(msgspec.json.encode(given[field]))
    return step


def _unknown(name: str) -> ProblemError:
    return ProblemError(404, f"no step in the catalogue is named {name!r}", parameter="name")


@delete(
    "/{name:str}",
    status_code=204,
    opt=operation(
        summary="Remove a step from the catalogue",
        tag=TAG,
        role="admin",
        description="Running flows keep it.",
        responses={204: ResponseSpec(None, "The step was removed.")},
        errors=(404,),
    ),
)
async def drop(request: Request[Any, Any, Any]) -> None:
    name = path_parameter(request, "name")
    async with audited(request, "step.drop", name):
        if not await app_of(request).drop_step(name):
            raise _unknown(name)


router = Router("/v1/steps", route_handlers=[register, list_steps, show, drop])
