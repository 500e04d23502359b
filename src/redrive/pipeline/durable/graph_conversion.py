"""Convert a pipeline to a graph: each stage becomes a step, and each `compensate` a compensation step."""

from collections.abc import Iterator

from redrive.errors import PipelineError, PolicyError
from redrive.flows.graphs.graph import Graph
from redrive.flows.graphs.spec import ActionHandler, InputSpec, StepSpec
from redrive.flows.stored_policy import write_stored_policy
from redrive.pipeline.durable.stage_actions import DATA, REQUEST_ID, StageAction, compensation_action, stage_action
from redrive.pipeline.plan import Plan


def graph_of(pipeline: str, plan: Plan) -> Graph:
    """Return the graph of a pipeline; all its stages are goals."""
    inputs = {DATA: InputSpec(type="object", role="optional", default={}), REQUEST_ID: InputSpec(role="optional")}
    goals = tuple(plan.layout.specs)
    return Graph.of_specs(pipeline, _steps(pipeline, plan), goals=goals, inputs=inputs).check()


def actions_of(pipeline: str, plan: Plan) -> Iterator[StageAction]:
    """Yield the actions that the steps of the pipeline's graph call."""
    for name, spec in plan.layout.specs.items():
        retrier = plan.retriers[name]
        yield stage_action(_action_name(pipeline, name), spec, retrier)
        if spec.compensate is not None:
            compensation = compensation_name(name)
            yield compensation_action(_action_name(pipeline, compensation), spec, spec.compensate, retrier)


def compensation_name(stage: str) -> str:
    """Return the name of the step that compensates a stage."""
    return f"{stage}.compensate"


def _steps(pipeline: str, plan: Plan) -> Iterator[StepSpec]:
    for name, spec in plan.layout.specs.items():
        retrier = plan.retriers[name]
        try:
            policy = write_stored_policy(retrier.policy)
        except PolicyError as error:
            raise PipelineError(
                f"stage {name!r}: its retry settings cannot be stored: {error.allowed}; name exception classes in them"
            ) from None
        inputs = {one: InputSpec() for one in spec.dependencies}
        inputs |= {DATA: InputSpec(type="object"), REQUEST_ID: InputSpec()}
        compensation = None if spec.compensate is None else compensation_name(name)
        yield StepSpec(
            name=name,
            handler=ActionHandler(action=_action_name(pipeline, name)),
            policy=policy,
            inputs=inputs,
            dependency=None if spec.dependency is None or retrier.dependency is None else spec.dependency.name,
            compensate=compensation,
        )
        if compensation is not None:
            handler = ActionHandler(action=_action_name(pipeline, compensation))
            yield StepSpec(name=compensation, handler=handler, policy=policy, inputs=inputs | {name: InputSpec()})


def _action_name(pipeline: str, step: str) -> str:
    # Unambiguous: neither names of pipelines nor names of stages may contain a slash.
    return f"{pipeline}/{step}"
