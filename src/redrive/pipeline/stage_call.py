"""The guarded call around one stage's attempts: permits, timeouts and retry decisions."""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retrier import Retrier
from redrive.calls.scope import CURRENT, NO_SCOPE, OWNER, STARTED, Scope
from redrive.errors import AttemptTimeoutError, CircuitOpenError, DeadlineExceededError
from redrive.failures.failure import Failure
from redrive.pipeline.output import StageOutput
from redrive.pipeline.run_environment import RunEnvironment
from redrive.pipeline.stage_retriers import captured_events
from redrive.policies.decide import SHORTEST_WAIT
from redrive.policies.decision import Decision
from redrive.policies.report import report_of
from redrive.resilience.circuit import CircuitState
from redrive.telemetry.events import AttemptFailed, CircuitChanged, CircuitRecovery, Event
from redrive.telemetry.stream import emit


class StageCall(msgspec.Struct, eq=False):
    """Asks policy, circuit and budget about each attempt at a stage.

    Most first attempts need not ask: no time limit, no budget, and a closed circuit. The `GuardedCall` is created only
    when one of them has something to say, or the attempt fails.
    """

    retrier: Retrier
    environment: RunEnvironment
    scope: Scope
    """Tells guarded calls inside the stage who owns the retries."""
    failure: Failure | None = None
    """The failure of the last failed attempt."""
    decision: Decision | None = None
    """The decision about it."""
    _call: GuardedCall | None = None
    _began: float = 0.0
    _skipped_permit: bool = False
    _circuit_seen: CircuitState | None = None

    def begin_attempt(self, now: float) -> float | None:
        """Admit the next attempt and return when to cut it; raise if the circuit or the deadline refuses it."""
        retrier = self.retrier
        if self._call is None and self.environment.outermost and retrier.policy.attempt_timeout is None:
            dependency = retrier.dependency
            circuit = None if dependency is None else dependency.circuit
            if (dependency is None or dependency.budget is None) and (
                circuit is None or (circuit.is_unlimited and not circuit.state.failures)
            ):
                self._began = now
                self._skipped_permit = True
                self._circuit_seen = None if circuit is None else circuit.state
                return None
        call = self._guarded_call()
        refusal = call.begin_attempt()
        if refusal is not None:
            raise refusal
        return call.attempt_until

    def attempt_succeeded(self, output: StageOutput) -> None:
        if self._call is None:
            dependency = self.retrier.dependency
            if dependency is None or dependency.circuit is None or dependency.circuit.state is self._circuit_seen:
                return
        call = self._guarded_call()
        with captured_events() as events:
            call.attempt_returned(output)
        self._read(events)

    def attempt_failed(self, error: Exception) -> float | None:
        """Classify the failure, decide about it, and return when to retry; None to give up."""
        call = self._guarded_call()
        if isinstance(error, CircuitOpenError) and report_of(error) is not None and call.gave_up is not None:
            # The circuit refused the attempt, and that decision is already made.
            self.decision = call.gave_up
            return None
        with captured_events() as events:
            retry_at = call.attempt_failed(error)
        self._read(events)
        return retry_at

    def count_extra_attempt(self, failed_at: float) -> float:
        """Count a retry that an interceptor wants and the policy does not grant; return when to make it.

        Unless the interceptor has waited itself, the policy's floor is waited.
        """
        call = self._guarded_call()
        call.history = structs.replace(call.history, attempts=call.history.attempts + 1)
        now = self.environment.clock.monotonic()
        return now if now - failed_at >= SHORTEST_WAIT else now + call.policy.floor

    def cut_error(self) -> AttemptTimeoutError | DeadlineExceededError:
        """Return the error of an attempt that was cut."""
        return self._guarded_call().cut_error()

    def abandon_attempt(self) -> None:
        """Release what a cancelled attempt, or a retry that is not made, holds."""
        if self._call is not None:
            self._call.abandon_attempt()

    def close(self) -> None:
        """End the stage's ownership of retries: work left in the background owns its own again."""
        if self.scope[OWNER] is self.retrier:
            self.scope[OWNER] = None

    def milliseconds_until(self, now: float) -> int:
        """Return the time since the first attempt began."""
        return round((now - self._guarded_call().history.started_at) * 1000)

    def _guarded_call(self) -> GuardedCall:
        if self._call is not None:
            return self._call
        environment, retrier, name = self.environment, self.retrier, self.retrier.operation or ""
        if not self._skipped_permit:
            call = GuardedCall(retrier, name, environment.clock, environment.dice, environment.outer)
            self.scope = call.scope
            CURRENT.set(self.scope)
        else:
            self.scope[STARTED] = self._began
            call = GuardedCall(retrier, name, environment.clock, environment.dice, NO_SCOPE, self.scope)
            call.first_attempt_was_made()
        self._call = call
        return call

    def _read(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, AttemptFailed):
                self.failure, self.decision = event.failure, event.decision
            elif isinstance(event, CircuitChanged | CircuitRecovery):
                # Circuits are shared, so every listener gets their changes.
                emit(event)
