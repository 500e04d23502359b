"""Turns a call into what a flow is stored with; pipelines, which definitions do not know, are added here."""

from collections.abc import Mapping
from typing import Any

from redrive.flows.action import Action, ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.flows.flow_input import INPUT_OF, FlowInput, goals_input, graph_input, input_of, job_input
from redrive.flows.workflows.workflow import Workflow

__all__ = ["FlowInput", "Schedulable", "call_without_arguments", "goals_input", "input_of", "job_input"]

Schedulable = ActionCall[Any] | FlowCall[Any] | Action[..., Any] | type[Workflow]
"""A call, or a workflow or an action that takes no arguments."""


def call_without_arguments(given: Schedulable) -> ActionCall[Any] | FlowCall[Any]:
    """Return the call of a workflow or an action that is given itself; calls as they are."""
    if isinstance(given, Action):
        return given()
    if isinstance(given, type) and issubclass(given, Workflow):
        return given.call()
    return given


# The modules of pipelines are imported when first used: most apps have none.


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
    return graph_input(graph, inputs)


INPUT_OF["pipeline"] = _pipeline_input
