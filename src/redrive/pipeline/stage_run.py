"""`StageRun`: one stage of one run, as its interceptors see it."""

from collections import ChainMap
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from redrive.failures.failure import Failure
from redrive.pipeline.context import Feedback, PipelineContext, StageContext, StageInputs
from redrive.pipeline.output import StageOutput
from redrive.pipeline.stage import StageSpec
from redrive.policies.decision import Decision

ATTEMPT_KEY = "_retry.attempt"
"""The key in `ctx.data` with the number of retries so far; `ctx.attempt` is the typed way to ask."""


class StageRun(PipelineContext):
    """The run's context as seen from one stage. `data` starts with the run's data; changes stay in this stage."""

    __slots__ = (
        "attempt",
        "attempt_began",
        "before_compensation",
        "decision",
        "failure",
        "fallback",
        "feedback",
        "inputs",
        "interceptor_state",
        "round",
        "run_data",
        "spec",
        "stage_name",
    )

    def __init__(
        self,
        run: PipelineContext,
        spec: StageSpec,
        inputs: StageInputs,
        feedback: tuple[Feedback, ...],
        round_: int,
        *,
        own_data: bool,
    ) -> None:
        """`own_data`: some interceptor may write to `data`."""
        self.pipeline_run_id = run.pipeline_run_id
        self.request_id = run.request_id
        self.event_sink = run.event_sink
        self._cancel = run._cancel
        self.run_data: MutableMapping[str, Any] = run.data
        self.data = ChainMap({}, run.data) if own_data else run.data
        self.spec = spec
        self.stage_name = spec.name
        self.inputs = inputs
        self.attempt = 0
        """The number of the current attempt, from 1."""
        self.attempt_began = 0.0
        """When the current attempt began, on the run's monotonic clock."""
        self.failure: Failure | None = None
        """The classified failure of the last failed attempt."""
        self.decision: Decision | None = None
        """What the policy decided about that failure."""
        self.fallback: StageOutput | None = None
        """The output to use when an interceptor returns ErrorAction.FALLBACK; set it before that."""
        self.feedback = feedback
        self.interceptor_state: dict[int, Any] = {}
        """What interceptors keep from `before` to `after`, by the id of the interceptor."""
        self.before_compensation: list[Callable[[], Awaitable[None]]] = []
        """Called before the stage is compensated: interceptors forget its output there."""
        self.round = round_
        """How often guards have sent this stage back."""

    def stage_context(self) -> StageContext:
        return StageContext(self, self.inputs, self.attempt, self.round)
