"""The state of one guarded call: asks circuit, budget, limits and `decide()`, records attempts, and emits events."""

from types import CoroutineType
from typing import Any

from msgspec import structs

from redrive.calls.dependency_use import DependencyUse
from redrive.calls.error_links import refusal_inside
from redrive.calls.guard import Guard
from redrive.calls.idempotency_keys import keys_of, keys_of_inner_call
from redrive.calls.kept_attempts import KeptAttempts
from redrive.calls.outer_deadline import OuterDeadlinePassed
from redrive.calls.scope import STARTED, Scope, begin_attempt, keys_in, owner_of, owns_retries, reports_inside, until_of
from redrive.calls.vetoes import veto, veto_on
from redrive.determinism.clock import Clock
from redrive.determinism.dice import Dice
from redrive.errors import (
    AttemptTimeoutError,
    CircuitOpenError,
    DeadlineExceededError,
    LimitReachedError,
    ResultRejectedError,
)
from redrive.failures.failure import Failure
from redrive.failures.retries_inside import warn_of_retries_inside
from redrive.policies.decide import decide
from redrive.policies.decision import Because, Conditions, Decision, GiveUp, GiveUpKind, RetryAt
from redrive.policies.history import History, attempt_timeout
from redrive.policies.report import AttemptRecord, Report, attach, next_step
from redrive.resilience import circuit as circuits
from redrive.resilience.circuit_outcome import circuit_outcome
from redrive.resilience.limits import ONE_REQUEST, Demand
from redrive.telemetry.events import AttemptFailed, CallRecovered, CallRefused, circuit_events
from redrive.telemetry.stream import correlation_id, emit

NEVER_INSIDE = "a guarded call inside never retries it"


class GuardedCall:
    """One call and the attempts made for it so far."""

    __slots__ = (
        "_attempt_began",
        "_dependency",
        "_enclosing",
        "_last_error",
        "_outer_deadline",
        "_records",
        "attempt_until",
        "clock",
        "demand",
        "dice",
        "gave_up",
        "guard",
        "handed_on",
        "history",
        "nested",
        "operation",
        "policy",
        "replayable",
        "reread_first",
        "scope",
        "self_limiting",
        "single_shot",
        "until",
    )

    def __init__(
        self, guard: Guard, operation: str, clock: Clock, dice: Dice, outer: Scope, scope: Scope | None = None
    ) -> None:
        """`scope` is the scope that the first attempt has already run in; None: the call has not begun."""
        self.guard = guard
        self.operation = operation
        self.clock = clock
        self.dice = dice
        started = clock.monotonic() if scope is None else float(scope[STARTED])
        self.single_shot = not guard.independent and owns_retries(outer)
        # Whether a call around this one, in this process, reports the failure as that of its own attempt.
        self.nested = self.single_shot and reports_inside(outer)
        self.policy = guard.policy
        self.until = None if self.policy.deadline is None else started + self.policy.deadline
        self._outer_deadline: float | None = None
        outer_until = until_of(outer)
        if outer_until is not None and (self.until is None or self.until > outer_until):
            # An inner call cannot outlast the enclosing one. Once that has no time left: the shortest legal deadline.
            self.until = outer_until
            self._outer_deadline = outer_until - float(outer[STARTED])
            self.policy = self.policy.replace(deadline=max(outer_until - started, 1e-9))
        self.scope: Scope = scope or self._new_scope(outer, outer_until, started)
        # The enclosing call's record of the work inside it.
        self._enclosing = keys_of(outer)
        self.history = History(started)
        self.attempt_until: float | None = None
        self.reread_first = False
        self.replayable = True
        # Items of a stream that the consumer has: a retry would repeat them.
        self.handed_on = 0
        # What an attempt is expected to use of the dependency's limits.
        self.demand = ONE_REQUEST
        # True if attempts respect `attempt_until` by themselves: they need no thread that can be abandoned.
        self.self_limiting = False
        self.gave_up: GiveUp | None = None
        self._attempt_began = started
        self._last_error: Exception | None = None
        self._records = KeptAttempts()
        counted_outside = self.single_shot and owner_of(outer).dependency is guard.dependency
        self._dependency = DependencyUse(None if counted_outside else guard.dependency)

    def _new_scope(self, outer: Scope, outer_until: float | None, started: float) -> Scope:
        """Open a scope. That of a single attempt must not hide the owner, and is often not needed."""
        if not self.single_shot:
            return [self.guard, started, self.until, keys_of_inner_call(outer, self.operation)]
        if self.nested and self.until == outer_until:
            return outer
        return [self.guard, outer[STARTED], self.until, keys_of(outer), outer]

    def reserve_room(self) -> float | Exception | None:
        """Take a place within the dependency's limits. Returns when the attempt may begin (None: now), or the error."""
        if not self._dependency.limited:
            return None
        now = self.clock.monotonic()
        room = self._dependency.reserve_room(self.demand, now, self.until)
        return self._refused(room, now) if isinstance(room, LimitReachedError) else room

    def count_use(self, used: Demand) -> None:
        """Count what the attempt really used of the dependency's limits."""
        self._dependency.settle_room(used, self.clock.monotonic())

    def begin_attempt(self) -> Exception | None:
        """Prepare the next attempt. Returns the error that ends the call instead: deadline passed, or circuit open."""
        now = self._attempt_began = self.clock.monotonic()
        until = self.until
        if until is not None and now >= until:
            return self._missed_deadline(now)
        refusal, change = self._dependency.begin_attempt(now, first=self.history.attempts == 1)
        self._emit_circuit_change(change)
        if refusal is not None:
            return self._refused(refusal, now)
        timeout = attempt_timeout(self.policy, self.history)
        if timeout is not None:
            until = now + timeout if until is None else min(now + timeout, until)
        self.attempt_until = until
        if not self.single_shot:
            if timeout is not None or self.history.attempts > 1:
                begin_attempt(self.scope, self.history.attempts, None if timeout is None else until)
            if (inside := keys_in(self.scope)) is not None:
                inside.next_attempt()
        if self._enclosing is not None and self.policy.idempotent is False:
            self._enclosing.unsafe_work_began(self)
        return None

    def first_attempt_was_made(self) -> None:
        """Count a first attempt that was made without `begin_attempt`, because nothing could have refused it."""
        _, change = self._dependency.begin_attempt(self._attempt_began, first=True)
        self._emit_circuit_change(change)

    def cut_error(self) -> AttemptTimeoutError | DeadlineExceededError:
        """Return the error for an attempt that was cut at `attempt_until`, by its own timeout or by the deadline."""
        timeout = attempt_timeout(self.policy, self.history)
        if timeout is not None and self.attempt_until == self._attempt_began + timeout:
            return AttemptTimeoutError(timeout)
        error = DeadlineExceededError(self.policy.deadline or 0.0)
        error.__cause__ = self._last_error
        return error

    def abandon_attempt(self, began: bool = True) -> None:
        """Release what the attempt held: it was cancelled and has no outcome."""
        now = self.clock.monotonic()
        if not began:
            self._dependency.leave_room(now)
        self._emit_circuit_change(self._dependency.report(circuits.ignored, now))
        self._dependency.give_back_retry(now)
        inside = None if self.single_shot else keys_in(self.scope)
        if self._enclosing is not None and inside is not None and inside.unsafe_work_left():
            self._enclosing.unsafe_work_began(self)

    def attempt_returned(self, result: Any) -> ResultRejectedError | None:
        """Accept a result, or return the error for one that `retry_result` rejects."""
        guard = self.guard
        self._unsafe_work_ended()
        if guard.retry_result is not None and (rejected := guard.retry_result(result)):
            # A coroutine is always true: it would reject every result.
            if isinstance(rejected, CoroutineType):
                rejected.close()
                raise TypeError("retry_result returned a coroutine, and nothing awaits it; use a plain function")
            return ResultRejectedError(result)
        change = self._dependency.report(circuits.succeeded, self.clock.monotonic())
        if self.history.attempts > 1:
            emit(
                CallRecovered(
                    operation=self.operation,
                    attempts=self.history.attempts,
                    elapsed=self.clock.monotonic() - self.history.started_at,
                    dependency=guard.dependency_name,
                    correlation_id=correlation_id(),
                    label=guard.operation or "",
                ),
                *guard.hooks,
            )
        self._emit_circuit_change(change)
        return None

    def forbid_outer_retries(self, error: Exception) -> None:
        """Keep the enclosing call from retrying an error that the fallback had no answer to: this call did retry."""
        if self._enclosing is not None and not self.guard.independent_by_request:
            veto(error, "never", self._enclosing)

    def may_have_taken_effect(self) -> bool:
        """Whether the last attempt may have taken effect, and the work must not be done twice."""
        last = self._records.last
        if last is None:
            return False
        failure = last.failure
        return self._is_unsafe_to_repeat(failure) or (failure.unsafe_to_repeat and not self.policy.idempotent)

    def attempt_failed(self, error: Exception) -> float | None:
        """Decide about a failed attempt. Returns when to retry, or None after attaching the report to the error."""
        now = self.clock.monotonic()
        self._unsafe_work_ended()
        if self.guard.owns_retries and not self.nested:
            warn_of_retries_inside(error, self.operation)
        failure = self._classify(error)
        refusal = refusal_inside(error)
        change = None
        # Only with a permit: finding the outcome may call the user's predicate once more.
        if self._dependency.holds_permit:
            outcome = circuits.ignored if refusal is not None else circuit_outcome(self.policy, failure)
            change = self._dependency.report(outcome, now)
        if failure.not_sent or (failure.status or 0) >= 400:
            self._dependency.settle_room(ONE_REQUEST, now)
        decision = decide(self.policy, self.history, failure, now, self.dice, self._conditions(now, refusal))
        started, attempt = self.history.started_at, self.history.attempts
        if isinstance(decision, GiveUp):
            self._dependency.give_back_retry(now)
            self.gave_up = decision
            self._veto(error, failure, decision)
            if self.nested:
                self._emit_circuit_change(change)
                return None
            # Without the error: it is about to refer to this record, and the two would form a cycle.
            self._keep(attempt, structs.replace(failure, error=None), decision, now)
            self._attach_report(error, decision, failure, now)
        else:
            self._keep(attempt, failure, decision, now)
            self._last_error = error
            self.history = self.history.after(decision)
            self.reread_first = self.guard.reread is not None and failure.status == 409
        self._emit_failed(attempt, failure, decision, now - started)
        self._emit_circuit_change(change)
        return decision.when if isinstance(decision, RetryAt) else None

    def failed_attempts(self) -> tuple[AttemptRecord, ...]:
        return self._records.all()

    def report_missed_deadline(self, error: Exception) -> None:
        """Emit the failure of a call that ends because its deadline passed; other refusals are emitted elsewhere."""
        gave_up = self.gave_up
        if gave_up is None or gave_up.kind != "deadline" or self.nested:
            return
        elapsed = self.clock.monotonic() - self.history.started_at
        if (last := self._records.last) is not None:
            self._emit_failed(last.number, last.failure, gave_up, elapsed)
        else:
            self._emit_failed(self.history.attempts, self._classify(error), gave_up, elapsed)

    def _emit_failed(self, attempt: int, failure: Failure, decision: Decision, elapsed: float) -> None:
        emit(
            AttemptFailed(
                operation=self.operation,
                attempt=attempt,
                attempts=self.policy.attempts,
                failure=failure,
                decision=decision,
                elapsed=elapsed,
                dependency=self.guard.dependency_name,
                correlation_id=correlation_id(),
                label=self.guard.operation or "",
            ),
            *self.guard.hooks,
        )

    def _classify(self, error: Exception) -> Failure:
        classifier = self.guard.classifier
        if isinstance(error, ResultRejectedError):
            describe = self.guard.classify_result
            if describe is not None:
                return describe(error.result, self.clock.wall())
            return classifier.failure_of_result(str(error))
        failure = classifier.failure_of(error, self.clock.wall())
        inside = None if self.single_shot else keys_in(self.scope)
        if inside is None:
            # There are no inner calls that could have vetoed a retry.
            return failure
        why = "unsafe" if inside.unsafe_work_left() else veto_on(error, inside)
        if why == "unsafe":
            return structs.replace(failure, unsafe_to_repeat=True)
        if why == "never":
            return structs.replace(failure, marked_permanent=True, reason=NEVER_INSIDE)
        return failure

    def _veto(self, error: Exception, failure: Failure, decision: GiveUp) -> None:
        """Mark the error for the enclosing call if that must not repeat the work."""
        if self._enclosing is None:
            return
        subject = error.result if isinstance(error, ResultRejectedError) else error
        if self._is_unsafe_to_repeat(failure) or failure.unsafe_to_repeat:
            veto(subject, "unsafe", self._enclosing)
        elif decision.because.rule == "never_on" or failure.reason == NEVER_INSIDE:
            veto(subject, "never", self._enclosing)

    def _is_unsafe_to_repeat(self, failure: Failure) -> bool:
        """Whether the attempt may have taken effect, and the policy says that the work is not idempotent."""
        return self.policy.idempotent is False and not failure.not_sent and not failure.asks_for_retry

    def _conditions(self, now: float, refusal: CircuitOpenError | None) -> Conditions:
        if refusal is not None:
            # An inner call was refused: after a wait here, its circuit would still be open.
            until = now + refusal.retry_in
            return Conditions(circuit="open", circuit_open_until=until, owned_elsewhere=self.single_shot)
        return self._dependency.conditions(
            now, owned_elsewhere=self.single_shot, replayable=self.replayable, handed_on=self.handed_on
        )

    def _unsafe_work_ended(self) -> None:
        if self._enclosing is not None:
            self._enclosing.unsafe_work_ended(self)

    def _emit_circuit_change(self, change: circuits.CircuitChange | None) -> None:
        for event in () if change is None else circuit_events(change):
            emit(event, *self.guard.hooks)

    def _missed_deadline(self, now: float) -> Exception:
        """Return the error of a call whose deadline, or whose enclosing call's, passed before the attempt began."""
        self._dependency.give_back_retry(now)
        self._dependency.leave_room(now)
        self.gave_up = self._not_begun("deadline", "the deadline passed before the attempt could begin")
        error = self._last_error
        if error is None and self._outer_deadline is not None:
            error = OuterDeadlinePassed(self._outer_deadline)
        elif error is None:
            error = DeadlineExceededError(self.policy.deadline or 0.0)
        self._attach_report(error, self.gave_up, None, now)
        return error

    def _not_begun(self, kind: GiveUpKind, detail: str, *, may_pass: bool = True) -> GiveUp:
        because = Because(
            rule="none",
            category="transient" if may_pass else "permanent",
            reason=detail,
            failure_kind="exception",
            attempt=self.history.attempts,
            attempts=self.policy.attempts,
            circuit="open" if kind == "circuit_open" else "none",
            detail=detail,
        )
        return GiveUp(kind, because)

    def _refused(self, refusal: CircuitOpenError | LimitReachedError, now: float) -> Exception:
        """Return the refusal of the circuit or the limits, with the report and the last error attached."""
        kind: GiveUpKind = "circuit_open" if isinstance(refusal, CircuitOpenError) else "rate_limit"
        may_pass = kind == "circuit_open" or refusal.retry_in is not None
        self.gave_up = self._not_begun(kind, str(refusal), may_pass=may_pass)
        self._attach_report(refusal, self.gave_up, None, now)
        refusal.__cause__ = self._last_error
        emit(
            CallRefused(
                operation=self.operation,
                dependency=refusal.dependency,
                retry_in=refusal.retry_in or 0.0,
                limit=refusal.limit if isinstance(refusal, LimitReachedError) else "",
                correlation_id=correlation_id(),
            ),
            *self.guard.hooks,
        )
        return refusal

    def _attach_report(self, error: Exception, gave_up: GiveUp, failure: Failure | None, now: float) -> None:
        report = Report(
            operation=self.operation,
            attempts=self._records.all(),
            left_out=self._records.left_out,
            elapsed=now - self.history.started_at,
            gave_up=gave_up,
            next_step=next_step(gave_up, failure, self.guard.dependency_name),
        )
        attach(error, report)

    def _keep(self, number: int, failure: Failure, decision: Decision, now: float) -> None:
        start = self.history.started_at
        self._records.add(
            AttemptRecord(
                number=number,
                began=self._attempt_began - start,
                ended=now - start,
                failure=failure,
                decision=decision,
            )
        )
