"""Turns a call into what a flow is stored with: the name of its definition and its input as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from redrive.flows.action import Action, ActionCall
from redrive.flows.flow_call import DefinitionKind, FlowCall
from redrive.flows.graphs.graph import register_graph
from redrive.flows.job import write_job
from redrive.flows.registry import ACTION, BY_GOALS, GRAPH, SCRIPT, WORKFLOW
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.scripts.script import register_script


class FlowInput(NamedTuple):
    definition: str
    """The definition's name, with its kind in front: "workflow:Checkout"."""
    text: str
    """The input as JSON."""
    read_result: Callable[[str], Any] | None = None
    """Reads the stored result by its type hint; None: as plain data."""


def _how_to_call(given: object, start: str) -> str:
    """What to write instead of something that is not a call."""
    name = getattr(given, "__name__", None)
    if isinstance(given, Action):
        return f"write {start}({name or 'charge'}(...)), not {given!r}"
    if isinstance(given, type) and hasattr(given, "workflow_name"):
        return f"write {start}({given.__name__}.call(...)), not {given!r}"
    if callable(getattr(given, "call", None)):
        return f"write {start}(x.call(...)), where x is {given!r}"
    return f"write {start}(Checkout.call(...)) for a workflow, app.start(charge(...)) for an action; not {given!r}"


def input_of(call: ActionCall[Any] | FlowCall[Any], start: str = "app.start") -> FlowInput:
    """Check the call's input against its definition; TypeError, or ValueError, where it does not fit.

    start: the function that was given the call.
    """
    if isinstance(call, ActionCall):
        return job_input(call)
    if not isinstance(call, FlowCall):
        raise TypeError(f"{start.rpartition('.')[2]} takes a call; {_how_to_call(call, start)}")
    return INPUT_OF[call.kind](call.definition, call.given, **call.options)


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


# The modules of graphs are imported when first used: most apps have none.


def graph_input(graph: Any, inputs: Mapping[str, Any], goals: Sequence[str] | None = None) -> FlowInput:
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


def _workflow_input(workflow: Any, arguments: Any) -> FlowInput:
    return FlowInput(WORKFLOW + workflow.workflow_name, arguments.encoded, workflow.signature.read_result)


def _script_input(script: Any, inputs: Mapping[str, Any], function: str | None = None) -> FlowInput:
    # Workers run the scripts that they know by name; the text comes with the flow.
    register_script(script)
    return FlowInput(SCRIPT + script.name, script.input_for(inputs, function))


INPUT_OF: dict[DefinitionKind, Callable[..., FlowInput]] = {
    "workflow": _workflow_input,
    "script": _script_input,
    "graph": graph_input,
}
"""How each kind of definition makes the input of a flow; the module that knows pipelines adds theirs."""
