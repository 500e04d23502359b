"""The state of one stage in one run: the only place where its attempts are counted and its decisions kept."""

from collections import ChainMap
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, STARTED, Scope
from redrive.determinism.clock import Clock
from redrive.determinism.dice import Dice
from redrive.failures.failure import Failure
from redrive.pipeline.context import Feedback, PipelineContext, StageContext, StageInputs
from redrive.pipeline.output import StageOutput
from redrive.policies.decision import Decision
from redrive.resilience.circuit import CircuitState
from redrive.telemetry.events import Event

if TYPE_CHECKING:
    from redrive.pipeline.interceptors.base import BaseInterceptor
    from redrive.pipeline.run import PipelineRun
    from redrive.pipeline.stage import StageSpec

OnFailure = Literal["fail_fast", "continue"]

ATTEMPT_KEY = "_retry.attempt"
"""Where interceptors find in `ctx.data` how many retries there were; `ctx.attempt` is the typed way to ask."""


class StageRun(PipelineContext):
    """A run as the interceptors of one stage see it. `data` falls back on the run's; what is put in stays here."""

    __slots__ = (
        "_call",
        "_circuit_seen",
        "_guard",
        "_surroundings",
        "_unasked",
        "attempt",
        "began",
        "decision",
        "done",
        "failure",
        "fallback",
        "feedback",
        "forget",
        "given",
        "heard",
        "inputs",
        "inside",
        "interceptors",
        "kept",
        "round",
        "scope",
        "spec",
        "stage_name",
    )

    def __init__(
        self,
        run: PipelineContext,
        spec: "StageSpec",
        inputs: StageInputs,
        guard: Retrier,
        surroundings: "Surroundings",
        feedback: tuple[Feedback, ...],
        interceptors: "tuple[BaseInterceptor, ...]",
        own_data: bool,
        round_: int = 0,
    ) -> None:
        self.pipeline_run_id = run.pipeline_run_id
        self.request_id = run.request_id
        self.event_sink = run.event_sink
        self._cancel = run._cancel
        self.given: MutableMapping[str, Any] = run.data
        self.data = ChainMap({}, run.data) if own_data else run.data
        self.spec = spec
        self.stage_name = spec.name
        self.inputs = inputs
        self._guard = guard
        self._surroundings = surroundings
        self._call: GuardedCall | None = None
        self._circuit_seen: CircuitState | None = None
        self._unasked = False
        self.scope: Scope = [guard, 0.0]
        """Tells guarded calls inside the stage who owns the retries."""
        self.attempt = 0
        """The attempt under way, from 1."""
        self.began = 0.0
        """When it began, on the run's clock."""
        self.failure: Failure | None = None
        """What the last failed attempt failed of."""
        self.decision: Decision | None = None
        """What was decided about it."""
        self.fallback: StageOutput | None = None
        """Set it before you return ErrorAction.FALLBACK: the output to use instead."""
        self.done: StageOutput | None = None
        """What its work gave, where that can be undone; not what answered in its place."""
        self.feedback = feedback
        self.interceptors = interceptors
        self.heard: list[Event] = []
        """What the call told about the attempt that ended last."""
        self.kept: dict[int, Any] = {}
        """What interceptors keep from `before` to `after`, each under its id."""
        self.forget: list[Callable[[], Awaitable[None]]] = []
        """What makes interceptors forget its output; called before that is undone."""
        self.inside: tuple[PipelineRun, ...] = ()
        """The runs of a pipeline that is this stage, one for each attempt: they take back what was done in them."""
        self.round = round_
        """How often guards have had this work done again."""

    def stage_context(self) -> StageContext:
        return StageContext(self, self.inputs, self.attempt, self.round)

    @property
    def call(self) -> GuardedCall:
        """What decides about the attempts: policy, history, circuit and budget. Made when it is first needed."""
        call = self._call
        if call is None:
            call = self._call = self._make_call()
        return call

    def _make_call(self) -> GuardedCall:
        guard, around = self._guard, self._surroundings
        if not self._unasked:
            call = GuardedCall(guard, self.stage_name, around.clock, around.dice, around.outer)
            self.scope = call.scope
            CURRENT.set(self.scope)
            return call
        self.scope[STARTED] = self.began
        call = GuardedCall(guard, self.stage_name, around.clock, around.dice, NO_SCOPE, self.scope)
        call.first_attempt_was_made()
        return call

    def begin(self) -> float | None:
        """Get ready for an attempt: when it is cut. Raises what refuses it: an open circuit, say.

        Most first attempts need not ask: their circuit is closed and there is no time limit and no budget to keep to.
        """
        guard, around = self._guard, self._surroundings
        if self._call is None:
            dependency = guard.dependency
            circuit = None if dependency is None else dependency.circuit
            if (
                around.alone
                and guard.policy.attempt_timeout is None
                and (dependency is None or dependency.budget is None)
                and (circuit is None or (circuit.state.phase == "closed" and not circuit.state.failures))
            ):
                self._unasked = True
                self._circuit_seen = None if circuit is None else circuit.state
                return None
        call = self.call
        refusal = call.begin_attempt()
        if refusal is not None:
            raise refusal
        return call.attempt_until

    def succeeded(self, output: StageOutput) -> None:
        """The attempt gave an output."""
        if self._call is None:
            dependency = self._guard.dependency
            if dependency is None or dependency.circuit is None or dependency.circuit.state is self._circuit_seen:
                return
        self.call.attempt_returned(output)

    @property
    def run_is_ending(self) -> bool:
        return self._surroundings.stopping

    @property
    def on_failure(self) -> OnFailure:
        return self._surroundings.on_failure

    def abandoned(self) -> None:
        """The attempt was cancelled."""
        if self._call is not None:
            self._call.abandon_attempt()

    def ended(self) -> None:
        """No more attempts: what goes on in the background owns its retries again."""
        if self.scope[OWNER] is self._guard:
            self.scope[OWNER] = None


class Surroundings(msgspec.Struct):
    """What all stages of a run have in common."""

    clock: Clock
    dice: Dice
    outer: Scope
    """The scope of the guarded call that the run is part of."""
    alone: bool
    """Whether it is part of none."""
    on_failure: OnFailure
    stopping: bool = False
    """Whether the run is being ended: nothing more is to begin."""
