"""Definitions: what workers can run, and how its steps fare."""

from typing import Any

from litestar import Request, Response, Router, get

from redrive.errors import NotationError
from redrive.explain.store_reader import all_workers
from redrive.failures.redaction import redact
from redrive.flows.action import ACTIONS, Action
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.notation.write import write_policy
from redrive.server.context import app_of
from redrive.server.contract.models import NoQuery, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.observed.definitions import DefinitionResponse, KnownPolicy, definitions
from redrive.server.observed.series import minutes_until
from redrive.server.requests.parsing import read_query
from redrive.stores.activity import ActivityQuery
from redrive.stores.records import DeadQuery


class DefinitionList(ResponseModel, frozen=True):
    definitions: list[DefinitionResponse]
    """By name, at most 1,000."""


@get(
    "/",
    opt=operation(
        summary="List definitions: who can run them, and how their steps fare",
        live=True,
        tag="definitions",
        role="read",
        query=NoQuery,
        responses={200: ResponseSpec(DefinitionList, "Those that workers can run, that have flows, or had attempts.")},
    ),
)
async def list_definitions(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    app = app_of(request)
    store = app.store
    query = ActivityQuery(since=minutes_until(app.now(), 60)[0], by=("definition", "step", "dependency"))
    found = definitions(
        await all_workers(store),
        await store.count_flows(),
        await store.group_dead_letters(DeadQuery()),
        await store.read_activity(query),
        _policy_of,
    )
    return json_response(DefinitionList(definitions=found))


def _policy_of(step: str) -> KnownPolicy | None:
    """The policy of an action, where this process has its code."""
    action = ACTIONS.by_name.get(step)
    if action is None:
        return None
    known = _written.get(step)
    if known is None or known[0] is not action:
        known = _written[step] = (action, _known_policy(action))
    return known[1]


_written: dict[str, tuple[Action[Any, Any], KnownPolicy | None]] = {}


def _known_policy(action: Action[Any, Any]) -> KnownPolicy | None:
    try:
        text = write_policy(action.policy)
    except NotationError:
        # It holds Python code.
        return None
    dependency = None if action.dependency is None else redact(action.dependency)
    return KnownPolicy(text, "default" if action.policy == DURABLE_DEFAULT else "action", dependency)


router = Router("/v1/definitions", route_handlers=[list_definitions])
