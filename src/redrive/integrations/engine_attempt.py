"""One attempt that another engine, such as Celery or Temporal, carries out: redrive decides, the engine waits.

The engine keeps the work between attempts, so the history comes in with each attempt and goes out with the decision.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from redrive.calls.idempotency_keys import keys_of
from redrive.calls.scope import CURRENT, OWNER, Scope, owner_after
from redrive.calls.vetoes import veto_on
from redrive.determinism.clock import Clock, current_clock
from redrive.determinism.dice import current_dice
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Failure
from redrive.policies.decide import decide
from redrive.policies.decision import Decision, GiveUp
from redrive.policies.history import History, cut_at
from redrive.policies.policy import Policy
from redrive.policies.report import AttemptRecord, Report, attach, next_step
from redrive.telemetry.events import AttemptFailed, CallRecovered
from redrive.telemetry.stream import correlation_id, emit


class EngineAttempt:
    """An attempt of a task or an activity. Times are seconds since 1970: attempts may run on different machines."""

    # With these, guarded calls inside the attempt take it for the call around them.
    dependency = None

    def __init__(
        self,
        policy: Policy,
        operation: str,
        history: History,
        *,
        receipt_token: str,
        classifier: Classifier,
        records: tuple[AttemptRecord, ...] = (),
        left_out: int = 0,
    ) -> None:
        """`receipt_token`: the id of the work, the same on every attempt; idempotency keys are made from it."""
        self.policy = policy
        self.operation = operation
        self.history = history
        self.receipt_token = receipt_token
        self.records = records
        self.left_out = left_out
        self.owns_retries = policy.attempts != 1
        self._classifier = classifier
        self._clock: Clock = current_clock()
        self._began = self._clock.wall()
        self._scope: Scope = self._new_scope()

    def _new_scope(self) -> Scope:
        """Return the scope in which guarded calls make one attempt each and end with this attempt."""
        cut = cut_at(self.policy, self.history, self._began)
        started = self._clock.monotonic()
        until = None if cut is None else started + max(0.0, cut - self._began)
        scope: Scope = [self, started]
        if until is not None:
            scope.append(until)
        return scope

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make guarded calls in this block part of the attempt."""
        token = CURRENT.set(self._scope)
        try:
            yield
        finally:
            self._scope[OWNER] = owner_after(self._clock)
            CURRENT.reset(token)

    def succeeded(self) -> None:
        """Emit that the work recovered, if it had failed before."""
        if self.history.attempts > 1:
            emit(
                CallRecovered(
                    operation=self.operation,
                    attempts=self.history.attempts,
                    elapsed=self._clock.wall() - self.history.started_at,
                    correlation_id=correlation_id(),
                )
            )

    def classify(self, error: Exception, *, timed_out: bool = False) -> Failure:
        """Classify what the attempt raised. Call it before leaving `running`, or vetoes of inner calls are unknown."""
        failure = self._classifier.failure_of(error, self._clock.wall(), timed_out)
        inside = keys_of(self._scope)
        if inside is None:
            return failure
        why = "unsafe" if inside.unsafe_work_left() else veto_on(error, inside)
        if why == "unsafe":
            return structs.replace(failure, unsafe_to_repeat=True)
        if why == "never":
            return structs.replace(failure, marked_permanent=True, reason="a guarded call inside never retries it")
        return failure

    def failed(self, error: Exception, failure: Failure) -> Decision:
        """Decide about the failed attempt, record it, and attach the report to the error if it was the last one."""
        now = self._clock.wall()
        decision = decide(self.policy, self.history, failure, now, current_dice())
        started = self.history.started_at
        record = AttemptRecord(
            number=self.history.attempts,
            began=max(0.0, self._began - started),
            ended=max(0.0, now - started),
            # Without the error: it is about to refer to this record, and the two would form a cycle.
            failure=structs.replace(failure, error=None),
            decision=decision,
        )
        self.records = (*self.records, record)
        emit(
            AttemptFailed(
                operation=self.operation,
                attempt=self.history.attempts,
                attempts=self.policy.attempts,
                failure=failure,
                decision=decision,
                elapsed=now - started,
                correlation_id=correlation_id(),
            )
        )
        if isinstance(decision, GiveUp):
            report = Report(
                operation=self.operation,
                attempts=self.records,
                left_out=self.left_out,
                elapsed=now - started,
                gave_up=decision,
                next_step=next_step(decision, failure, None),
            )
            attach(error, report)
        return decision
