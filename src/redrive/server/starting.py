"""From what someone sent to a flow that runs."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.client.new_flows import LARGEST_PRIORITY
from redrive.errors import (
    ArgumentsError,
    GraphError,
    InputError,
    KeyTakenError,
    PlanError,
    ScriptError,
    TypeHintError,
    UnknownDefinitionError,
)
from redrive.failures.duration import read_duration
from redrive.flows.named_arguments import call_by_names
from redrive.flows.registry import action_named, graph_named, script_named, workflow_named
from redrive.flows.scripts.script import Script
from redrive.flows.workflow import Workflow
from redrive.server.operations import Ask, Name
from redrive.server.problems import Flaw, Refused, json_pointer, unfit
from redrive.server.reading import said_and_path
from redrive.stores.records import FlowRecord

LONGEST_DELAY = 1e9
WAYS = ("goals", "graph", "workflow", "action", "script")


class Start(Ask, frozen=True):
    """What to start: exactly one of goals, graph, workflow, action and script."""

    goals: Annotated[list[Name], Meta(min_length=1, max_length=1000)] | msgspec.UnsetType = msgspec.UNSET
    """Steps of the catalogue that are to be reached; with a graph, those of its steps."""
    graph: Name | msgspec.UnsetType = msgspec.UNSET
    workflow: Name | msgspec.UnsetType = msgspec.UNSET
    action: Name | msgspec.UnsetType = msgspec.UNSET
    script: Name | msgspec.UnsetType = msgspec.UNSET
    function: Name | msgspec.UnsetType = msgspec.UNSET
    """Of a script: the function to run, in place of `main`."""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """What it takes, by name."""
    key: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")] | None = None
    """Starting again with the same key and inputs gives the same flow; with other inputs it is refused."""
    queue: Name = "default"
    priority: Annotated[int, Meta(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY)] = 0
    """Higher goes first."""
    delay: Annotated[float, Meta(ge=0, le=LONGEST_DELAY)] | Annotated[str, Meta(max_length=50)] | None = None
    """Begin later: seconds, or a text such as "2h"."""


class Started(msgspec.Struct, frozen=True):
    record: FlowRecord
    is_new: bool


async def start_flow(app: App, body: Start, key: str | None) -> Started:
    ways = [way for way in WAYS if getattr(body, way) is not msgspec.UNSET]
    if ways not in (["goals"], ["graph"], ["goals", "graph"], ["workflow"], ["action"], ["script"]):
        given = " and ".join(ways) or "none"
        raise Refused(422, f"name one of {', '.join(WAYS)}; this has {given}", pointer=_pointer(ways))
    if isinstance(body.function, str) and ways != ["script"]:
        raise Refused(422, "function is for scripts; leave it out", pointer="/function")
    settings = {"key": key, "queue": body.queue, "priority": body.priority, "delay": _delay(body)}
    try:
        handle = await _started(app, body, settings)
    except KeyTakenError:
        raise
    except ArgumentsError as error:
        text, path = said_and_path(str(error))
        raise Refused(422, text, pointer="/inputs" + json_pointer((error.name,) if error.name else path)) from None
    except InputError as error:
        raise Refused(422, error.problem, pointer=f"/inputs{error.pointer}") from None
    except PlanError as error:
        raise _unreachable(error) from None
    except GraphError as error:
        # Of a graph or of the catalogue, not of what was sent.
        raise Refused(422, str(error).replace("\n", "; "), pointer=_pointer(ways)) from None
    except ScriptError as error:
        # Of a script that is registered here.
        raise Refused(422, str(error).replace("\n", "; "), pointer="/script") from None
    except TypeHintError as error:
        # Of code that is registered here.
        raise unfit(error, _pointer(ways)) from None
    except (ValueError, TypeError) as error:
        raise unfit(error, "/inputs") from None
    return Started(await app.find(handle.id), handle.is_new)


async def _started(app: App, body: Start, settings: dict[str, Any]) -> Handle[Any]:
    if isinstance(body.workflow, str):
        workflow: type[Workflow] = _known(workflow_named, body.workflow, "/workflow")
        args, kwargs = call_by_names(workflow, body.inputs, "inputs")
        return await app.start(workflow.call(*args, **kwargs), **settings)
    if isinstance(body.action, str):
        action = _known(action_named, body.action, "/action")
        args, kwargs = call_by_names(action, body.inputs, "inputs")
        return await app.start(action(*args, **kwargs), **settings)
    if isinstance(body.script, str):
        script: Script = _known(script_named, body.script, "/script")
        return await app.start(script.call(body.inputs, function=_function(script, body)), **settings)
    goals = body.goals if isinstance(body.goals, list) else None
    if isinstance(body.graph, str):
        graph = _known(graph_named, body.graph, "/graph")
        return await app.start(graph.call(body.inputs, goals=goals), **settings)
    return await app.start_goals(goals or [], body.inputs, **settings)


def _function(script: Script, body: Start) -> str:
    try:
        return script.function(body.function if isinstance(body.function, str) else None).name
    except ValueError as error:
        raise unfit(error, "/function") from None


def _unreachable(error: PlanError) -> Refused:
    pointers = ["/inputs" + json_pointer((name,)) for name in error.missing]
    flaws = [Flaw(line) for line in error.lines]
    return Refused(422, error.lines[0], pointer=(pointers or ["/goals"])[0], problems=flaws if len(flaws) > 1 else None)


def _known(find: Any, name: str, pointer: str) -> Any:
    try:
        return find(name)
    except UnknownDefinitionError as error:
        raise unfit(error, pointer) from None


def _delay(body: Start) -> float | None:
    if body.delay is None:
        return None
    try:
        seconds = read_duration(body.delay)
        if seconds > LONGEST_DELAY:
            raise ValueError(f"{body.delay!r} is too long; use {LONGEST_DELAY:.0e} seconds at most")
        return seconds
    except ValueError as error:
        raise unfit(error, "/delay") from None


def _pointer(ways: list[str]) -> str:
    return f"/{ways[-1]}" if ways else ""
