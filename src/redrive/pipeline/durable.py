"""A pipeline as a graph: the same stages, with the same policies, carried out durably by the engine."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redrive.errors import NotationError, PipelineError, PolicyError
from redrive.flows.graphs.builder import MOST_STEPS, Graph
from redrive.flows.graphs.names import NAME_WORDS, read_name
from redrive.flows.graphs.spec import ActionHandler, InputSpec, StepSpec
from redrive.flows.graphs.step_reading import LONGEST_DEPENDENCY
from redrive.flows.registry import check_name_is_free, register, register_graph
from redrive.flows.stored_policy import write_stored_policy
from redrive.notation.place import Place
from redrive.pipeline.durable_stage import DATA, REQUEST_ID, StageAction, stage_action, undo_action
from redrive.pipeline.interceptors import (
    BaseInterceptor,
    CircuitBreakerInterceptor,
    IdempotencyInterceptor,
    LoggingInterceptor,
    MetricsInterceptor,
    RetryInterceptor,
    TimeoutInterceptor,
    TracingInterceptor,
)
from redrive.pipeline.one_name import check_same_or_reloaded
from redrive.pipeline.pipeline import Pipeline
from redrive.pipeline.plan import Plan
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.sub_pipeline import SubPipeline

UNNAMED = Pipeline().name

_HOOKS = ("before", "after", "on_error", "on_cancel")
# What these do around attempts the engine does itself.
_KNOWN = (
    BaseInterceptor,
    CircuitBreakerInterceptor,
    LoggingInterceptor,
    MetricsInterceptor,
    RetryInterceptor,
    TimeoutInterceptor,
    TracingInterceptor,
)


class _Registered(NamedTuple):
    pipeline: Pipeline
    plan: Plan
    graph: Graph


_registered: dict[str, _Registered] = {}


def register_pipeline(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None = None) -> None:
    """Have the workers of this process carry out flows of the pipeline, which they know by its name.

    interceptors: the settings for retries and timeouts of stages, as in `Pipeline.run`.
    """
    plan = _durable_plan(pipeline, interceptors)
    known = _registered.get(pipeline.name)
    if known is not None and known.pipeline is not pipeline:
        check_same_or_reloaded(pipeline.name, known.plan.layout.specs, plan.layout.specs)
    graph = _graph_of(pipeline, plan)
    actions = list(_actions(pipeline, plan))
    for action in actions:
        try:
            check_name_is_free(action)
        except ValueError as error:
            both = str(error).partition(";")[0]
            raise PipelineError(f"pipeline {pipeline.name!r}: {both}; give one of the two another name") from None
    for action in actions:
        register(action)
    register_graph(graph)
    _registered[pipeline.name] = _Registered(pipeline, plan, graph)


def registered_graph(pipeline: Pipeline) -> Graph:
    """The graph that it is registered as; one that is not is registered, with the interceptors that its name has.

    Where nobody has registered that name, these are the default ones.
    """
    known = _registered.get(pipeline.name)
    if known is None:
        register_pipeline(pipeline)
    elif known.pipeline is not pipeline:
        register_pipeline(pipeline, known.plan.interceptors)
    return _registered[pipeline.name].graph


@contextmanager
def forgetting_pipelines() -> Iterator[None]:
    """Names of pipelines that are registered inside are free again afterwards."""
    before = dict(_registered)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


def graph_of(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None = None) -> Graph:
    """Its stages as the steps of a graph, all of them goals. PipelineError for what only a run in process can do."""
    return _graph_of(pipeline, _durable_plan(pipeline, interceptors))


def _graph_of(pipeline: Pipeline, plan: Plan) -> Graph:
    inputs = {DATA: InputSpec(type="object", role="optional", default={}), REQUEST_ID: InputSpec(role="optional")}
    goals = tuple(plan.layout.specs)
    graph = Graph.of_specs(pipeline.name, _steps(pipeline, plan), goals=goals, inputs=inputs)
    return graph.check()


def _steps(pipeline: Pipeline, plan: Plan) -> Iterator[StepSpec]:
    for name, spec in plan.layout.specs.items():
        guard = plan.guards[name]
        try:
            policy = write_stored_policy(guard.policy)
        except PolicyError as error:
            raise PipelineError(
                f"stage {name!r}: its retry settings cannot be stored: {error.allowed}; name classes of errors in them"
            ) from None
        inputs = {one: InputSpec() for one in spec.dependencies}
        inputs |= {DATA: InputSpec(type="object"), REQUEST_ID: InputSpec()}
        yield StepSpec(
            name=name,
            handler=ActionHandler(action=_action_name(pipeline, name)),
            policy=policy,
            inputs=inputs,
            dependency=None if spec.dependency is None or guard.dependency is None else spec.dependency.name,
            compensate=None if spec.undo is None else _undo_name(name),
        )
        if spec.undo is not None:
            handler = ActionHandler(action=_action_name(pipeline, _undo_name(name)))
            yield StepSpec(name=_undo_name(name), handler=handler, policy=policy, inputs=inputs | {name: InputSpec()})


def _actions(pipeline: Pipeline, plan: Plan) -> Iterator[StageAction]:
    for name, spec in plan.layout.specs.items():
        yield stage_action(_action_name(pipeline, name), spec, plan.guards[name])
        if spec.undo is not None:
            yield undo_action(_action_name(pipeline, _undo_name(name)), spec, spec.undo, plan.guards[name])


def _action_name(pipeline: Pipeline, step: str) -> str:
    # No name of a pipeline or of a stage has this in it, so no two pairs of them make the same.
    return f"{pipeline.name}/{step}"


def _undo_name(stage: str) -> str:
    return f"{stage}.undo"


def _durable_plan(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None) -> Plan:
    """The pipeline as it would run in process with these interceptors; PipelineError where the engine cannot do it."""
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"register_pipeline takes a Pipeline, not {pipeline!r}")
    if pipeline.name == UNNAMED:
        raise PipelineError(
            f"pipeline {UNNAMED!r}: workers know a durable pipeline by its name; give it one of its own: "
            "pipeline.with_name('checkout')"
        )
    _check_name(pipeline.name, f"pipeline {pipeline.name!r}", ": pipeline.with_name('checkout')")
    plan = pipeline.plan_with(interceptors)
    for one in plan.interceptors:
        _check_interceptor(one)
    specs = plan.layout.specs
    if len(specs) > MOST_STEPS:
        raise PipelineError(
            f"pipeline {pipeline.name!r}: {len(specs)} stages are too many for a durable run; use at most {MOST_STEPS}"
        )
    for name, spec in specs.items():
        _check_stage(spec)
        if spec.undo is not None and _undo_name(name) in specs:
            raise PipelineError(
                f"stage {_undo_name(name)!r}: this names what undoes {name!r}; give the stage another name"
            )
    return plan


def _check_name(name: str, what: str, how: str = "") -> None:
    try:
        read_name(name, Place("name"))
    except NotationError:
        raise PipelineError(f"{what}: a durable run cannot have this name; use {NAME_WORDS}{how}") from None


def _check_interceptor(one: BaseInterceptor) -> None:
    if isinstance(one, IdempotencyInterceptor):
        raise PipelineError(
            f"interceptors: {type(one).__name__} is for runs in process; leave it out: a durable run records what each "
            "stage gave, and key=... starts it once"
        )
    own = [hook for hook in _HOOKS if not any(_hook(one, hook) is getattr(known, hook) for known in _KNOWN)]
    if own:
        raise PipelineError(
            f"interceptors: {type(one).__name__} has its own {', '.join(own)}, and a durable run does not call them; "
            "leave it out, or run the pipeline in process"
        )


def _hook(one: BaseInterceptor, name: str) -> object:
    hook = getattr(one, name)
    return getattr(hook, "__func__", hook)


def _check_stage(spec: StageSpec) -> None:
    what = f"stage {spec.name!r}"
    if spec.name in (DATA, REQUEST_ID):
        raise PipelineError(f"{what}: a durable run is given its {spec.name} by this name; give the stage another")
    _check_name(spec.name, what)
    if spec.undo is not None:
        _check_name(_undo_name(spec.name), f"{what}: {_undo_name(spec.name)!r}, which undoes it")
    if isinstance(spec.stage, SubPipeline):
        raise PipelineError(f"{what}: a durable run has no pipelines inside; compose it instead: pipeline.compose(...)")
    if spec.guard_retry is not None:
        raise PipelineError(
            f"{what}: guard_retry is for runs in process: what a durable run has recorded is not done again; leave it "
            "out, or do both in one stage"
        )
    if spec.fallback is not None:
        raise PipelineError(f"{what}: fallback is for runs in process; leave it out, and handle the error in execute")
    dependency = "" if spec.dependency is None else spec.dependency.name
    if len(dependency) > LONGEST_DEPENDENCY or not dependency.isprintable():
        raise PipelineError(
            f"{what}: dependency: its name must be printable, and have at most {LONGEST_DEPENDENCY} characters"
        )
