"""Register pipelines, so that workers of this process run their flows."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from redrive.errors import PipelineError
from redrive.flows.action import check_name_is_free, register_action
from redrive.flows.graphs.graph import Graph, register_graph
from redrive.pipeline.durable.graph_conversion import actions_of, graph_of
from redrive.pipeline.durable.validation import durable_plan
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.pipeline import Pipeline
from redrive.pipeline.plan import Plan
from redrive.pipeline.stage import StageSpec

Specs = Mapping[str, StageSpec]


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
        _check_same_or_reloaded(pipeline.name, known.plan.layout.specs, plan.layout.specs)
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


def _check_same_or_reloaded(name: str, known: Specs, new: Specs) -> None:
    """Raise PipelineError if flows of one pipeline would be carried out by stages of the other.

    Two pipelines may share a name only if their stages are the same, or their module was reloaded.
    """
    differing = [one for one in {**known, **new} if _differ(known.get(one), new.get(one))]
    in_both = [one for one in differing if one in known and one in new]
    other = [one for one in in_both if not _is_reloaded(known[one], new[one])]
    if not other and in_both:
        # A reloaded module may add or remove stages.
        return
    first = next(iter(other or differing), None)
    if first is None:
        return
    if first not in new:
        how = f"with a stage {first!r} that this one does not have"
    else:
        how = f"with another stage {first!r}" if first in known else f"without a stage {first!r}"
    raise PipelineError(
        f"pipeline {name!r} is already registered {how}; create it once and use that, or rename this one: "
        "pipeline.with_name(...)"
    )


def _differ(one: StageSpec | None, other: StageSpec | None) -> bool:
    return one is not other and (one is None or other is None or not one.same_as(other))


def _is_reloaded(known: StageSpec, new: StageSpec) -> bool:
    """Whether the module of the stage was executed again: same name and module, but another class or function."""
    one, other = _definition(known.stage), _definition(new.stage)
    modules = {one.__module__, other.__module__}
    # Local functions and lambdas are created anew each time: an equal name proves nothing.
    same_name = one.__qualname__ == other.__qualname__ and "<" not in one.__qualname__
    # The main program is loaded again when another module imports it.
    return one is not other and same_name and (len(modules) == 1 or "__main__" in modules)


def _definition(stage: Any) -> Any:
    """Return the function, unwrapped, or the class of a stage."""
    function = inspect.unwrap(getattr(stage, "__func__", stage))
    return function if inspect.isfunction(function) else type(stage)
