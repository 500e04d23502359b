"""The catalogue: steps that are registered once, and that flows are planned from by their goals."""

from typing import Any

from litestar import Request, Response, Router, delete, get, post

from redrive.flows.graphs.notation.step_writing import step_as_data
from redrive.server.operations import Answer, Ask, Says, answer, opt
from redrive.server.problems import Refused, unfit
from redrive.server.reading import path_parameter, read_body, read_query
from redrive.server.served import app_of

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
"""As it can be registered again."""


class StepList(Answer, frozen=True):
    steps: list[Step]


class NoQuery(Ask, frozen=True):
    pass


@post(
    "/",
    opt=opt(
        summary="Register a step, or put it in place of the one with its name",
        tag=TAG,
        role="admin",
        description="Written as in a graph, with its name beside. Flows that run keep the step they began with.",
        body=Step,
        example=EXAMPLE,
        answers={201: Says(Step, "It is new."), 200: Says(Step, "It took the place of the one before.")},
        errors=(422,),
    ),
)
async def register(request: Request[Any, Any, Any]) -> Response[bytes]:
    body = await read_body(request, Step)
    app = app_of(request)
    try:
        is_new = await app.register_step(body)
    except (LookupError, ValueError, TypeError) as error:
        raise unfit(error, "") from None
    return answer(await _step(request, str(body["name"])), 201 if is_new else 200)


@get(
    "/",
    opt=opt(
        summary="List the steps of the catalogue",
        tag=TAG,
        role="read",
        query=NoQuery,
        answers={200: Says(StepList, "All of them, by name.")},
    ),
)
async def list_steps(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    return answer(StepList(steps=[step_as_data(step) for step in await app_of(request).steps()]))


@get(
    "/{name:str}",
    opt=opt(
        summary="Look at a step",
        tag=TAG,
        role="read",
        answers={200: Says(Step, "The step, as it can be registered again.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    name = path_parameter(request, "name")
    return answer(await _step(request, name))


async def _step(request: Request[Any, Any, Any], name: str) -> Step:
    for step in await app_of(request).steps():
        if step.name == name:
            return step_as_data(step)
    raise _unknown(name)


def _unknown(name: str) -> Refused:
    return Refused(404, f"no step of the catalogue is named {name!r}", parameter="name")


@delete(
    "/{name:str}",
    status_code=204,
    opt=opt(
        summary="Take a step out of the catalogue",
        tag=TAG,
        role="admin",
        description="Flows that run keep it.",
        answers={204: Says(None, "It is gone.")},
        errors=(404,),
    ),
)
async def drop(request: Request[Any, Any, Any]) -> None:
    name = path_parameter(request, "name")
    if not await app_of(request).drop_step(name):
        raise _unknown(name)


router = Router("/v1/steps", route_handlers=[register, list_steps, show, drop])
