"""Refuse pipelines that a durable run cannot carry out."""

from collections.abc import Iterable

from redrive.errors import NotationError, PipelineError
from redrive.flows.dependency_name import LONGEST_DEPENDENCY
from redrive.flows.graphs.graph import MOST_STEPS
from redrive.flows.graphs.notation.names import NAME_WORDS, read_name
from redrive.notation.place import Place
from redrive.pipeline.durable.graph_conversion import compensation_name
from redrive.pipeline.durable.stage_actions import DATA, REQUEST_ID
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
from redrive.pipeline.pipeline import Pipeline
from redrive.pipeline.plan import Plan
from redrive.pipeline.stage import StageSpec

UNNAMED = Pipeline().name

_HOOKS = ("before", "after", "on_error", "on_cancel")
# The engine itself does what the hooks of these do.
_BUILT_IN = (
    BaseInterceptor,
    CircuitBreakerInterceptor,
    LoggingInterceptor,
    MetricsInterceptor,
    RetryInterceptor,
    TimeoutInterceptor,
    TracingInterceptor,
)


def durable_plan(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None) -> Plan:
    """Return the pipeline's plan with these interceptors; raise PipelineError if the engine cannot carry it out."""
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"register_pipeline takes a Pipeline, not {pipeline!r}")
    if pipeline.name == UNNAMED:
        raise PipelineError(
            f"pipeline {UNNAMED!r}: workers find a durable pipeline by its name; give it one: "
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
        if spec.compensate is not None and compensation_name(name) in specs:
            raise PipelineError(
                f"stage {compensation_name(name)!r}: this is the name of the compensation of {name!r}; rename the stage"
            )
    return plan


def _check_name(name: str, what: str, example: str = "") -> None:
    try:
        read_name(name, Place("name"))
    except NotationError:
        raise PipelineError(f"{what}: this name is not allowed in a durable run; use {NAME_WORDS}{example}") from None


def _check_interceptor(one: BaseInterceptor) -> None:
    if isinstance(one, IdempotencyInterceptor):
        raise PipelineError(
            f"interceptors: {type(one).__name__} works only in process; leave it out: a durable run records the output "
            "of each stage, and key=... starts it once"
        )
    own = [hook for hook in _HOOKS if not any(_function(one, hook) is getattr(known, hook) for known in _BUILT_IN)]
    if own:
        raise PipelineError(
            f"interceptors: {type(one).__name__} has its own {', '.join(own)}, and a durable run does not call them; "
            "leave it out, or run the pipeline in process"
        )


def _function(one: BaseInterceptor, hook: str) -> object:
    method = getattr(one, hook)
    return getattr(method, "__func__", method)


def _check_stage(spec: StageSpec) -> None:
    what = f"stage {spec.name!r}"
    if spec.name in (DATA, REQUEST_ID):
        raise PipelineError(f"{what}: a durable run has an input of this name; rename the stage")
    _check_name(spec.name, what)
    if spec.compensate is not None:
        compensation = compensation_name(spec.name)
        _check_name(compensation, f"{what}: the name of its compensation, {compensation!r}")
    if spec.is_pipeline:
        raise PipelineError(f"{what}: a durable run cannot nest pipelines; compose them: pipeline.compose(...)")
    if spec.guard_retry is not None:
        raise PipelineError(
            f"{what}: guard_retry works only in process, because a durable run does not repeat recorded work; leave it "
            "out, or do both in one stage"
        )
    if spec.fallback is not None:
        raise PipelineError(f"{what}: fallback works only in process; leave it out, and handle the error in execute")
    dependency = "" if spec.dependency is None else spec.dependency.name
    if len(dependency) > LONGEST_DEPENDENCY or not dependency.isprintable():
        raise PipelineError(
            f"{what}: dependency: its name must be printable and at most {LONGEST_DEPENDENCY} characters long"
        )
