"""Turns a call into what a flow is stored with: the name of its definition and its input as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from redrive.flows.action import Action, ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.flows.graphs.graph import register_graph
from redrive.flows.job import write_job
from redrive.flows.registry import ACTION, BY_GOALS, GRAPH, SCRIPT, WORKFLOW
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.scripts.script import register_script
from redrive.flows.workflows.workflow import Workflow

Schedulable = ActionCall[Any] | FlowCall[Any] | Action[..., Any] | type[Workflow]
"""A call, or a workflow or an action that takes no arguments."""


class FlowInput(NamedTuple):
    definition: str
    """The definition's name, with its kind in front: "workflow:Checkout"."""
    text: str
    """The input as JSON."""
    read_result: Callable[[str], Any] | None = None
    """Reads the stored result by its type hint; None: as plain data."""


def call_without_arguments(given: Schedulable) -> ActionCall[Any] | FlowCall[Any]:
    """Return the call of a workflow or an action that is given itself; calls as they are."""
    if isinstance(given, Action):
        return given()
    if isinstance(given, type) and issubclass(given, Workflow):
        return given.call()
    return given


def _how_to_call(given: object) -> str:
    """What to write instead of something that is not a call."""
    name = getattr(given, "__name__", None)
    if isinstance(given, Action):
        return f"write app.start({name or 'charge'}(...)), not {given!r}"
    if isinstance(given, type) and hasattr(given, "workflow_name"):
        return f"write app.start({given.__name__}.call(...)), not {given!r}"
    if callable(getattr(given, "call", None)):
        return f"write app.start(x.call(...)), where x is {given!r}"
    return f"write app.start(Checkout.call(...)) for a workflow, app.start(charge(...)) for an action; not {given!r}"


def input_of(call: ActionCall[Any] | FlowCall[Any]) -> FlowInput:
    """Check the call's input against its definition; TypeError, or ValueError, where it does not fit."""
    if isinstance(call, ActionCall):
        return job_input(call)
    if not isinstance(call, FlowCall):
        raise TypeError(f"start takes a call; {_how_to_call(call)}")
    if call.kind == "workflow":
        workflow = call.definition
        return FlowInput(WORKFLOW + workflow.workflow_name, call.given.encoded, workflow.signature.read_result)
    if call.kind == "script":
        # Workers run the scripts that they know by name; the text comes with the flow.
        register_script(call.definition)
        return FlowInput(SCRIPT + call.definition.name, call.definition.input_for(call.given, **call.options))
    if call.kind == "graph":
        return _graph_input(call.definition, call.given, **call.options)
    return _pipeline_input(call.definition, call.given, **call.options)


def job_input(call: ActionCall[Any], retry: Retry | None = None, timeout: Timeout | None = None) -> FlowInput:
    """Return the input of a job, a flow of one action; `retry` and `timeout` override the action's own."""
    action = call.action
    policy = action.policy
    if retry is not None or timeout is not None:
        policy = as_policy(policy if retry is None else retry, timeout)
    return FlowInput(ACTION + action.name, write_job(call, policy), action.signature.read_result)


def goals_input(steps: Sequence[Any], goals: Sequence[str], inputs: Mapping[str, Any]) -> FlowInput:
    """Plan the goals over the steps of the catalogue."""
    from redrive.flows.graphs.plan import check_inputs, plan

    planned = plan(steps, goals, inputs)
    return _planned_input(BY_GOALS, planned, check_inputs(planned, inputs), planned.goals)


# The modules of graphs and pipelines are imported when first used: most apps have none.


def _graph_input(graph: Any, inputs: Mapping[str, Any], goals: Sequence[str] | None = None) -> FlowInput:
    from redrive.flows.graphs.plan import check_inputs, plan

    # A worker of this process runs it.
    register_graph(graph)
    planned = plan(graph, goals, inputs)
    given = check_inputs(planned, inputs, graph.inputs)
    return _planned_input(graph.name, planned, given, planned.goals if goals else ())


def _planned_input(name: str, planned: Any, inputs: dict[str, Any], asked: tuple[str, ...]) -> FlowInput:
    from redrive.flows.graphs.spec import GraphInput

    given = GraphInput(plan=planned, inputs=inputs, asked=asked)
    return FlowInput(GRAPH + name, msgspec.json.encode(given, order="deterministic").decode())


def _pipeline_input(pipeline: Any, data: Mapping[str, Any] | None, request_id: Any) -> FlowInput:
    from redrive.flows.values.json_form import JsonForm
    from redrive.pipeline.durable import DATA, REQUEST_ID, registered_graph

    graph = registered_graph(pipeline)
    given = {DATA: None if data is None else dict(data), REQUEST_ID: request_id}
    inputs = {
        name: JsonForm(Any, f"pipeline {pipeline.name!r}: {name}", annotated=False).write(value)[1]
        for name, value in given.items()
        if value is not None
    }
    return _graph_input(graph, inputs)
