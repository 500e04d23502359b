"""Flows of pipelines, from outside."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from redrive.client.new_flows import FlowSettings
from redrive.flows.values.json_form import JsonForm
from redrive.flows.values.named_arguments import unknown_argument
from redrive.pipeline.durable import DATA, REQUEST_ID, registered_graph
from redrive.pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.handle import Handle


async def start_pipeline(
    app: "App", pipeline: Pipeline, args: tuple[Any, ...], given: Mapping[str, Any], **settings: Unpack[FlowSettings]
) -> "Handle[Any]":
    """Start a flow of a pipeline. `args`, `given`: what `App.start` was given; TypeError when they do not fit."""
    if args:
        raise TypeError("start of a pipeline: what it is given has a name; write start(pipeline, data={...})")
    for name in given:
        if name not in (DATA, REQUEST_ID):
            raise TypeError(f"start of a pipeline: {unknown_argument(name, [DATA, REQUEST_ID, *settings])}")
    graph = registered_graph(pipeline)
    inputs: dict[str, Any] = {}
    if DATA in given:
        if not isinstance(given[DATA], Mapping):
            raise TypeError(f"start of a pipeline: data is a {type(given[DATA]).__name__}; pass a dict of values")
        inputs[DATA] = _as_stored(pipeline, DATA, dict(given[DATA]))
    if given.get(REQUEST_ID) is not None:
        inputs[REQUEST_ID] = _as_stored(pipeline, REQUEST_ID, given[REQUEST_ID])
    return await app.start_graph(graph, inputs, **settings)


def _as_stored(pipeline: Pipeline, what: str, value: Any) -> Any:
    return JsonForm(Any, f"pipeline {pipeline.name!r}: {what}", annotated=False).write(value)[1]
