"""Register pipelines, so that workers of this process run their flows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redrive.errors import PipelineError
from redrive.flows.action import check_name_is_free, register_action
from redrive.flows.graphs.graph import Graph, register_graph
from redrive.pipeline.durable.graph_conversion import actions_of, graph_of
from redrive.pipeline.durable.name_conflicts import check_same_or_reloaded
from redrive.pipeline.durable.validation import durable_plan
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.pipeline import Pipeline
from redrive.pipeline.plan import Plan


class _Registered(NamedTuple):
    pipeline: Pipeline
    plan: Plan
    graph: Graph


_registered: dict[str, _Registered] = {}


def register_pipeline(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None = None) -> None:
    """Let the workers of this process run flows of the pipeline, which they find by its name.

    interceptors: the retry and timeout settings of the stages, as in `Pipeline.run`.
    """
    plan = durable_plan(pipeline, interceptors)
    known = _registered.get(pipeline.name)
    if known is not None and known.pipeline is not pipeline:
        check_same_or_reloaded(pipeline.name, known.plan.layout.specs, plan.layout.specs)
    graph = graph_of(pipeline.name, plan)
    actions = list(actions_of(pipeline.name, plan))
    for action in actions:
        try:
            check_name_is_free(action)
        except ValueError as error:
            both = str(error).partition(";")[0]
            raise PipelineError(f"pipeline {pipeline.name!r}: {both}; rename one of them") from None
    for action in actions:
        register_action(action)
    register_graph(graph)
    _registered[pipeline.name] = _Registered(pipeline, plan, graph)


def registered_graph(pipeline: Pipeline) -> Graph:
    """Return the pipeline's graph, registering it if needed.

    It is registered with the interceptors of the pipeline that has its name, or else with the default ones.
    """
    known = _registered.get(pipeline.name)
    if known is None:
        register_pipeline(pipeline)
    elif known.pipeline is not pipeline:
        register_pipeline(pipeline, known.plan.interceptors)
    return _registered[pipeline.name].graph


@contextmanager
def forgetting_pipelines() -> Iterator[None]:
    """Unregister at the end of the block the pipelines that were registered inside it."""
    before = dict(_registered)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)
