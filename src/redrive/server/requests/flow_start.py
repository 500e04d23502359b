"""Start a flow from a request body."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.client.repeated_starts import repeated_starts
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
from redrive.flows.action import action_named
from redrive.flows.graphs.graph import graph_named
from redrive.flows.registry import ACTION, BY_GOALS, GRAPH, SCRIPT, WORKFLOW
from redrive.flows.scripts.script import Script, script_named
from redrive.flows.start_settings import LARGEST_PRIORITY
from redrive.flows.tags import LONGEST_TAG, MOST_TAGS, TAG_NAME
from redrive.flows.values.named_arguments import call_by_names
from redrive.flows.workflows.workflow import Workflow, workflow_named
from redrive.server.contract.models import Name, RequestModel
from redrive.server.contract.problems import ProblemError, SingleProblem, json_pointer, unprocessable, unprocessable_all
from redrive.server.requests.parsing import split_message
from redrive.stores.records import FlowRecord
from redrive.telemetry.traceparent import read_traceparent

LONGEST_DELAY = 1e9
TagName = Annotated[str, Meta(pattern=rf"^{TAG_NAME}$(?!\n)")]
TagText = Annotated[str, Meta(min_length=1, max_length=LONGEST_TAG, pattern=r"^[^\x00]*$")]
Tags = Annotated[dict[TagName, TagText], Meta(max_length=MOST_TAGS)]
KINDS = ("goals", "graph", "workflow", "action", "script")


class StartRequest(RequestModel, frozen=True):
    """What to start: exactly one of goals, graph, workflow, action and script."""

    goals: Annotated[list[Name], Meta(min_length=1, max_length=1000)] | msgspec.UnsetType = msgspec.UNSET
    """Steps of the catalogue to reach; with a graph, steps of that graph."""
    graph: Name | msgspec.UnsetType = msgspec.UNSET
    workflow: Name | msgspec.UnsetType = msgspec.UNSET
    action: Name | msgspec.UnsetType = msgspec.UNSET
    script: Name | msgspec.UnsetType = msgspec.UNSET
    function: Name | msgspec.UnsetType = msgspec.UNSET
    """For a script: the function to run; by default `main`."""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """The arguments or inputs, by name."""
    key: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")] | None = None
    """Starting again with the same key and inputs returns the same flow; other inputs are refused."""
    queue: Name = "default"
    priority: Annotated[int, Meta(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY)] = 0
    """Flows with a higher priority are claimed first."""
    delay: Annotated[float, Meta(ge=0, le=LONGEST_DELAY)] | Annotated[str, Meta(max_length=50)] | None = None
    """Begin later: seconds, or text such as "2h"."""
    tags: Tags | None = None
    """Names and texts to find the flow by."""
    unique_for: Annotated[float, Meta(gt=0, le=LONGEST_DELAY)] | Annotated[str, Meta(max_length=50)] | None = None
    """With a key: for how long after its start the same flow is returned; then the key starts a new one."""
    debounce: Annotated[float, Meta(gt=0, le=LONGEST_DELAY)] | Annotated[str, Meta(max_length=50)] | None = None
    """With a key: begin once nobody has started it again for this time; each start replaces the inputs."""
    concurrency_key: Name | None = None
    """Flows of a queue with the same one, such as a tenant, take turns with others and share its limits per key."""


class StartedFlow(msgspec.Struct, frozen=True):
    record: FlowRecord
    is_new: bool


async def start_flow(
    app: App,
    body: StartRequest,
    key: str | None,
    may_use: Callable[[str, str], bool],
    traceparent: str | None = None,
) -> StartedFlow:
    """Start the flow, or return the one that has its key.

    may_use: whether a queue and a definition are allowed.
    traceparent: the header of that name; one that is not valid is ignored, as the W3C says.
    """
    kinds = [kind for kind in KINDS if getattr(body, kind) is not msgspec.UNSET]
    if kinds not in (["goals"], ["graph"], ["goals", "graph"], ["workflow"], ["action"], ["script"]):
        given = " and ".join(kinds) or "none of them"
        raise ProblemError(422, f"name one of {', '.join(KINDS)}; this body has {given}", pointer=_pointer(kinds))
    if isinstance(body.function, str) and kinds != ["script"]:
        raise ProblemError(422, "`function` is only for scripts; leave it out", pointer="/function")
    definition = _definition(body)
    if not may_use(body.queue, definition):
        detail = f"your API key does not allow {definition} in queue {body.queue}; use a key that does"
        raise ProblemError(403, detail)
    settings = settings_of(body) | {"key": key}
    try:
        repeated_starts(body.unique_for, body.debounce, None, settings)
    except ValueError as error:
        raise unprocessable(error, "/unique_for" if body.debounce is None else "/debounce") from None
    settings |= {"unique_for": body.unique_for, "debounce": body.debounce}
    if traceparent is not None and read_traceparent(traceparent) is not None:
        settings["traceparent"] = traceparent
    try:
        handle = await _start(app, body, settings)
    except KeyTakenError as error:
        await _check_key(app, error.flow_id, may_use)
        raise
    except ArgumentsError as error:
        text, path = split_message(str(error))
        raise ProblemError(422, text, pointer="/inputs" + json_pointer((error.name,) if error.name else path)) from None
    except InputError as error:
        raise ProblemError(422, error.problem, pointer=f"/inputs{error.pointer}") from None
    except PlanError as error:
        raise _unreachable(error) from None
    except GraphError as error:
        # The graph or the catalogue is wrong, not the request.
        raise ProblemError(422, str(error).replace("\n", "; "), pointer=_pointer(kinds)) from None
    except ScriptError as error:
        # The registered script is wrong, not the request.
        raise ProblemError(422, str(error).replace("\n", "; "), pointer="/script") from None
    except TypeHintError as error:
        # The registered code is wrong, not the request.
        raise unprocessable(error, _pointer(kinds)) from None
    except (ValueError, TypeError) as error:
        raise unprocessable(error, "/inputs") from None
    return StartedFlow(await _check_key(app, handle.id, may_use), handle.is_new)


async def _check_key(app: App, flow_id: str, may_use: Callable[[str, str], bool]) -> FlowRecord:
    """Return the flow that has the key. Whoever may not use it learns neither its id nor whether the inputs agree."""
    record = await app.find(flow_id)
    if not may_use(record.queue, record.definition):
        detail = (
            "a flow with this idempotency key exists, and your API key may not use it; choose another idempotency key"
        )
        raise ProblemError(403, detail, pointer="/key")
    return record


def _definition(body: StartRequest) -> str:
    """Return what the flow runs, as its record names it."""
    for prefix, name in ((GRAPH, body.graph), (WORKFLOW, body.workflow), (ACTION, body.action), (SCRIPT, body.script)):
        if isinstance(name, str):
            return prefix + name
    return GRAPH + BY_GOALS


def settings_of(body: StartRequest) -> dict[str, Any]:
    return {
        "key": body.key,
        "queue": body.queue,
        "priority": body.priority,
        "delay": _delay(body),
        "tags": body.tags or None,
        "concurrency_key": body.concurrency_key,
    }


async def _start(app: App, body: StartRequest, settings: dict[str, Any]) -> Handle[Any]:
    call = await call_of(body)
    if call is not None:
        return await app.start(call, **settings)
    return await app.start_goals(body.goals if isinstance(body.goals, list) else [], body.inputs, **settings)


async def call_of(body: StartRequest) -> Any:
    """Return the call that the body describes; None for goals alone."""
    # A large input is decoded and encoded several times. In between, others have their turn.
    await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
    if isinstance(body.workflow, str):
        workflow: type[Workflow] = _registered(workflow_named, body.workflow, "/workflow")
        args, kwargs = call_by_names(workflow.signature, body.inputs, "inputs")
        await asyncio.sleep(0)  # noqa: TID251 - as above
        return workflow.call(*args, **kwargs)
    if isinstance(body.action, str):
        action = _registered(action_named, body.action, "/action")
        args, kwargs = call_by_names(action.signature, body.inputs, "inputs")
        await asyncio.sleep(0)  # noqa: TID251 - as above
        call = action(*args, **kwargs)
        await asyncio.sleep(0)  # noqa: TID251 - as above
        return call
    if isinstance(body.script, str):
        script: Script = _registered(script_named, body.script, "/script")
        return script.call(body.inputs, function=_function(script, body))
    goals = body.goals if isinstance(body.goals, list) else None
    if isinstance(body.graph, str):
        graph = _registered(graph_named, body.graph, "/graph")
        return graph.call(body.inputs, goals=goals)
    return None


def _function(script: Script, body: StartRequest) -> str:
    try:
        return script.function(body.function if isinstance(body.function, str) else None).name
    except ValueError as error:
        raise unprocessable(error, "/function") from None


def _unreachable(error: PlanError) -> ProblemError:
    pointers = ["/inputs" + json_pointer((name,)) for name in error.missing]
    return unprocessable_all([SingleProblem(line) for line in error.lines], (pointers or ["/goals"])[0])


def _registered(find: Any, name: str, pointer: str) -> Any:
    try:
        return find(name)
    except UnknownDefinitionError as error:
        raise unprocessable(error, pointer) from None


def _delay(body: StartRequest) -> float | None:
    if body.delay is None:
        return None
    try:
        seconds = read_duration(body.delay)
        if seconds > LONGEST_DELAY:
            raise ValueError(f"{body.delay!r} is too long; use at most {LONGEST_DELAY:.0e} seconds")
        return seconds
    except ValueError as error:
        raise unprocessable(error, "/delay") from None


def _pointer(kinds: list[str]) -> str:
    return f"/{kinds[-1]}" if kinds else ""
