"""Answers queries by replaying a flow's log, in the process that asks: the flow itself is not touched."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.errors import InvalidStateError, UnknownDefinitionError
from redrive.flows.drivers import driver_for
from redrive.flows.events import CancelRequested, FlowFailed, Line
from redrive.flows.history import FlowHistory
from redrive.flows.registry import WORKFLOW
from redrive.flows.replay import began_at, has_begun, replay
from redrive.flows.values.json_form import JsonForm
from redrive.flows.workflows.handlers import check_name, handler_of
from redrive.flows.workflows.workflow import workflow_named

Query = str | Callable[..., Any]


async def ask(flows: FlowAccess, flow_id: str, query: Query, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer, decoded by the type hints of the query."""
    record = await flows.find(flow_id)
    name = _name_of(query)
    if not record.definition.startswith(WORKFLOW):
        arguments = JsonForm(dict[str, Any], f"query {name}: its arguments").write(kwargs)[0]
        return await answer(flows, flow_id, name, arguments)
    handlers = _workflow(record.definition).handlers
    handler = handlers.queries.get(name)
    if handler is None:
        return await answer(flows, flow_id, name, "{}")
    return handler.signature.read_result(
        await answer(flows, flow_id, name, handler.signature.bind(args, kwargs).encoded)
    )


async def plain_answer(flows: FlowAccess, flow_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
    given = JsonForm(dict[str, Any], f"query {name}: its arguments").write(dict(arguments))[0]
    record = await flows.find(flow_id)
    if record.definition.startswith(WORKFLOW):
        _workflow(record.definition)
    return msgspec.json.decode(await answer(flows, flow_id, check_name("query", name), given))


async def answer(flows: FlowAccess, flow_id: str, name: str, arguments: str) -> str:
    """The answer as JSON."""
    record = await flows.find(flow_id)
    driver = driver_for(record.definition, flow_id, record.input)
    lines = _of_its_code(await flows.log(flow_id))
    if not has_begun(lines):
        raise InvalidStateError(f"flow {flow_id} has not begun yet, so it cannot answer")
    try:
        pieces = replay(lines, driver, FlowHistory(), began_at(lines))
        for _ in pieces:
            await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        return driver.query(name, arguments)
    finally:
        driver.discard()


def _name_of(query: Query) -> str:
    if isinstance(query, str):
        return check_name("query", query)
    handler = handler_of(query)
    if handler is None or handler.kind != "query":
        raise TypeError(f"query takes a name, or a method marked with @redrive.query, not {query!r}")
    return handler.name


def _workflow(definition: str) -> Any:
    name = definition.removeprefix(WORKFLOW)
    try:
        return workflow_named(name)
    except UnknownDefinitionError:
        hint = "a query is answered by the workflow's code: import the module that defines it"
        raise UnknownDefinitionError("workflow", name, hint) from None


def _of_its_code(lines: list[Line]) -> list[Line]:
    """The log up to where the flow was ended without its code."""
    if not lines:
        return lines
    if len(lines) > 1 and isinstance(cancel := lines[-2].event, CancelRequested) and cancel.force:
        return lines[:-2]
    last = lines[-1].event
    return lines[:-1] if isinstance(last, FlowFailed) and last.kind == "poison" else lines
