"""`Pipeline`: an immutable DAG of stages; each `with_…` method returns another one."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, get_args

from redrive.errors import PipelineError
from redrive.flows.flow_call import FlowCall
from redrive.pipeline.context import PipelineContext
from redrive.pipeline.errors import PipelineFailedError
from redrive.pipeline.guard_retry import GuardRetry
from redrive.pipeline.interceptors import get_default_interceptors
from redrive.pipeline.interceptors.base import BaseInterceptor, StatelessInterceptor
from redrive.pipeline.layout import Layout
from redrive.pipeline.plan import Plan
from redrive.pipeline.results import PipelineResult
from redrive.pipeline.run import PipelineRun
from redrive.pipeline.run_environment import OnFailure
from redrive.pipeline.sinks import EventSink
from redrive.pipeline.stage import Condition, Executes, StageKind, StageSpec
from redrive.pipeline.sub_pipeline import SubPipeline

# For how many sets of interceptors a pipeline keeps its plans; programs use one or two.
MAX_PLANS = 8


class Pipeline:
    """A DAG of async stages.

    pipeline = (
        Pipeline()
        .with_stage("fetch", Fetch(), StageKind.WORK)
        .with_stage("total", Total(), StageKind.TRANSFORM, dependencies=("fetch",))
    )
    result = await pipeline.run()
    """

    def __init__(self, name: str = "pipeline", *, _stages: Mapping[str, StageSpec] | None = None) -> None:
        self.name: Final = name
        self._stages: Final[Mapping[str, StageSpec]] = {} if _stages is None else _stages
        self._layout: Layout | None = None
        self._plans: dict[tuple[StatelessInterceptor | int, ...], Plan] = {}

    def with_stage(
        self,
        name: str,
        stage: "Executes | Pipeline | Callable[..., Awaitable[Any]] | type",
        kind: StageKind | str | None = None,
        dependencies: Iterable[str] = (),
        *,
        when: Condition | None = None,
        guard_retry: GuardRetry | None = None,
    ) -> "Pipeline":
        """Return this pipeline with one more stage.

        stage: an object with `execute`, a class of such objects, a coroutine function of the context, or a Pipeline.
        dependencies: the stages whose outputs it may read; the stage starts when they are done.
        when: a condition, checked before the stage starts; if it is false, the stage is skipped.
        guard_retry: for a guard: which stage to send back when the guard fails, and how often.
        """
        if name in self._stages:
            raise PipelineError(f"stage {name!r}: the pipeline already has a stage of this name; use another")
        source: Any = SubPipeline(stage) if isinstance(stage, Pipeline) else stage
        is_pipeline = isinstance(source, SubPipeline)
        spec = StageSpec(name, source, kind, dependencies, when, guard_retry, is_pipeline=is_pipeline)
        return Pipeline(self.name, _stages={**self._stages, name: spec})

    def compose(self, other: "Pipeline") -> "Pipeline":
        """Return a pipeline with the stages of both. Stages of the same name must be the same."""
        if not isinstance(other, Pipeline):
            raise TypeError(f"compose: a {type(other).__name__} is not allowed; use a Pipeline")
        stages = dict(self._stages)
        for name, spec in other._stages.items():
            known = stages.setdefault(name, spec)
            if known is not spec and not known.same_as(spec):
                raise PipelineError(f"stage {name!r}: the pipelines have different stages of this name; rename one")
        return Pipeline(self.name if self.name == other.name else f"{self.name}+{other.name}", _stages=stages)

    def with_name(self, name: str) -> "Pipeline":
        """Return this pipeline with another name."""
        return Pipeline(name, _stages=self._stages)

    def build(self) -> "Pipeline":
        """Validate the pipeline: every dependency exists, and there are no cycles. `run` does this too."""
        self._built()
        return self

    def _built(self) -> Layout:
        if self._layout is None:
            self._layout = Layout(self._stages)
        return self._layout

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in the order in which they were added."""
        return tuple(self._stages)

    def call(
        self, *, data: Mapping[str, Any] | None = None, request_id: Any = None
    ) -> FlowCall[dict[str, dict[str, Any] | None]]:
        """The pipeline with its data, ready to be started as a durable flow; its result is each stage's output."""
        if data is not None and not isinstance(data, Mapping):
            raise TypeError(f"call of a pipeline: data is a {type(data).__name__}; pass a dict of values")
        return FlowCall("pipeline", self, data, request_id=request_id)

    async def run(
        self,
        ctx: PipelineContext | None = None,
        /,
        *,
        data: MutableMapping[str, Any] | None = None,
        request_id: Any = None,
        event_sink: EventSink | None = None,
        interceptors: Iterable[BaseInterceptor] | None = None,
        on_failure: OnFailure = "fail_fast",
    ) -> PipelineResult:
        """Run all stages, each as soon as its dependencies are done.

        ctx: the run's context; by default it is created from `data`, `request_id` and `event_sink`.
        interceptors: the interceptors around each attempt; by default `get_default_interceptors()`.
        on_failure: "fail_fast" cancels the other stages when one fails; "continue" runs every stage that does not
            depend on it. Either way PipelineFailedError is raised, with the results so far.
        """
        if on_failure not in get_args(OnFailure):
            raise ValueError(f'on_failure: {on_failure!r} is not allowed; use "fail_fast" or "continue"')
        if ctx is not None and not isinstance(ctx, PipelineContext):
            raise TypeError(f"run: a {type(ctx).__name__} is not a PipelineContext; write run(data={{...}})")
        if ctx is None:
            ctx = PipelineContext(data=data, request_id=request_id, event_sink=event_sink)
        elif data is not None or request_id is not None or event_sink is not None:
            raise TypeError("run: data, request_id and event_sink belong to the context; give them to PipelineContext")
        elif ctx._cancel is not None:
            raise ValueError("run: another run is using this context; create a PipelineContext for each run")
        return await PipelineRun(self.plan_with(interceptors), ctx, on_failure).complete()

    def plan_with(self, interceptors: Iterable[BaseInterceptor] | None = None) -> Plan:
        """Return the plan for runs with these interceptors; plans are cached."""
        if isinstance(interceptors, BaseInterceptor):
            name = type(interceptors).__name__
            raise TypeError(f"interceptors: a {name} is not a list; write [*get_default_interceptors(), {name}(...)]")
        chosen = tuple(get_default_interceptors() if interceptors is None else interceptors)
        # By identity, unless they are redrive's own: a dataclass with state may be equal to another one.
        key = tuple(one if isinstance(one, StatelessInterceptor) and one.is_ours() else id(one) for one in chosen)
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(self._built(), chosen)
            while len(self._plans) >= MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return plan

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._stages)} stages)"


async def run_with_retry(stage: Any, *interceptors: BaseInterceptor, **data: Any) -> Mapping[str, Any]:
    """Run one stage alone with these interceptors and return its data; if it fails, raise its own error."""
    try:
        result = await Pipeline().with_stage("stage", stage, "work").run(data=data, interceptors=interceptors)
    except PipelineFailedError as failed:
        raise failed.error from failed.error.__cause__
    return result.data("stage")
