"""Dependencies: what workers know about them, what waits for them, and their circuits by hand."""

from typing import Any, Literal

from litestar import Request, Response, Router, get, post

from redrive.client.dependency_orders import order_dependency
from redrive.explain.store_reader import all_workers
from redrive.server.access.audit import audited
from redrive.server.access.authentication import operator_name
from redrive.server.context import app_of
from redrive.server.contract.models import NoQuery, OperatorRequest, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.observed.dependencies import DependencyResponse, OrderResponse, dependencies, order_response
from redrive.server.observed.series import minutes_until
from redrive.server.requests.parsing import path_parameter, read_body, read_query
from redrive.stores.activity import ActivityQuery
from redrive.stores.records import DeadQuery
from redrive.stores.worker_reports import read_report

TAG = "dependencies"


class DependencyList(ResponseModel, frozen=True):
    dependencies: list[DependencyResponse]
    """Those in trouble first, at most 500."""


class Ordered(ResponseModel, frozen=True):
    name: str
    order: OrderResponse


@get(
    "/",
    opt=operation(
        summary="List dependencies: their circuits, and what waits for them",
        live=True,
        tag=TAG,
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(DependencyList, "Those that steps talked to, or that someone gave orders about.")},
    ),
)
async def list_dependencies(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    app = app_of(request)
    store, now = app.store, app.now()
    names = {worker.epoch: worker.name for worker in await all_workers(store)}
    reports = [(names.get(one.epoch, ""), read_report(one)) for one in await store.list_reports()]
    found = dependencies(
        [(name, body) for name, body in reports if body is not None],
        await store.group_retries(),
        await store.group_dead_letters(DeadQuery()),
        await store.list_dependency_orders(),
        await store.read_activity(ActivityQuery(since=minutes_until(now, 60)[0], by=("dependency",))),
        now,
    )
    return json_response(DependencyList(dependencies=found))


def _endpoint(name: Literal["open", "close"], summary: str, description: str) -> Any:
    about = operation(
        summary=summary,
        tag=TAG,
        role="operate",
        description=description,
        body=OperatorRequest,
        example={"why": "the provider asked for it", "by": "anna"},
        responses={202: ResponseSpec(Ordered, "The order is kept, and workers follow it within seconds.")},
        errors=(422,),
    )

    async def order(request: Request[Any, Any, Any]) -> Response[bytes]:
        dependency = path_parameter(request, "name")
        wanted = await read_body(request, OperatorRequest)
        by = operator_name(request.scope, wanted.by)
        async with audited(request, f"dependency.{name}", dependency, by=wanted.by, detail=wanted.why):
            try:
                kept = await order_dependency(app_of(request), dependency, name, by=by, why=wanted.why)
            except ValueError as error:
                raise ProblemError(422, str(error), parameter="name") from None
        answer = order_response(kept)
        assert answer is not None  # noqa: S101 - narrows for mypy: an order was kept
        return json_response(Ordered(name=kept.name, order=answer), 202)

    return post(f"/{{name:str}}/{name}", name=f"{name}_circuit", status_code=202, opt=about)(order)


router = Router(
    "/v1/dependencies",
    route_handlers=[
        list_dependencies,
        _endpoint(
            "open",
            "Hold a dependency's circuit open: no attempt at it begins",
            "In all workers, until it is closed by hand. What is due waits, and spends no attempt.",
        ),
        _endpoint(
            "close",
            "Close a dependency's circuit: what waits for it begins, slowly at first",
            "In all workers, once: from then on it opens and closes by itself.",
        ),
    ],
)
