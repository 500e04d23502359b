"""One guarded call of a chain of models, sans-IO: it yields the request to make, and is sent each outcome."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from redrive.calls.guarded_call import GuardedCall
from redrive.calls.retrier import Retrier
from redrive.calls.retry_protocol import Failed, Outcome
from redrive.calls.scope import CURRENT
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.errors import CircuitOpenError, LimitReachedError, ModelsFailedError
from redrive.failures.failure import Failure
from redrive.failures.known_errors.services.openai_errors import quota_is_spent
from redrive.failures.matching import Match
from redrive.integrations.llm.model import Model
from redrive.integrations.llm.model_report import FailedAttempt, ModelReport, ModelTry, attach, made_report
from redrive.integrations.llm.response_shapes import failure_in, no_answer_in, unreadable, written_characters
from redrive.integrations.llm.usage import CHARACTERS_PER_TOKEN, Tokens, demand_of, later_of, tokens_of
from redrive.policies.decision import RetryAt
from redrive.policies.report import AttemptRecord
from redrive.policies.report import attach as attach_call_report
from redrive.policies.report import report_of as call_report_of

_NO_CREDIT = (402, 429)


class ModelRequest:
    """A request to one model, under the guarded call that makes it."""

    def __init__(self, model: Model, retrier: Retrier, arguments: Mapping[str, Any], stream: bool) -> None:
        self.model = model
        self.arguments = model.request(arguments, stream)
        self.estimated = model.estimated(self.arguments)
        self.tokens: Tokens | None = None
        """As the model reported them; None until it did."""
        self._written = 0
        self.call = GuardedCall(
            retrier, retrier.operation or model.name, current_clock(), current_dice(), CURRENT.get()
        )
        self.call.demand = demand_of(self.estimated, model.price)

    @property
    def tokens_or_estimate(self) -> Tokens:
        """The tokens of the answer; if the model does not report them, estimated from what it wrote."""
        if self.tokens is not None or not self._written:
            return self.tokens or self.estimated
        return Tokens(input=self.estimated.input, output=-(-self._written // CHARACTERS_PER_TOKEN))

    def send(self) -> Any:
        self._written = 0
        return self.model.function(**self.arguments)

    def accept(self, response: Any) -> Any:
        """Count what a response used, and return it; raises if it says that it failed, though its status is 200."""
        if (failed := failure_in(response)) is not None:
            raise failed
        if (tokens := tokens_of(response)) is not None:
            self.tokens = later_of(self.tokens, tokens)
        self._written += written_characters(response)
        return response

    def accept_whole(self, response: Any) -> Any:
        """Do the same for a response that is no stream; raises if it is no answer of a model at all."""
        if (failed := failure_in(response) or no_answer_in(response, self.model.method)) is not None:
            raise failed
        return self.accept(response)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What a client cannot read is no answer of the vendor, but of something in between; it may pass."""
        try:
            yield
        except json.JSONDecodeError as error:
            if self.model.method is None:
                raise
            raise unreadable(error) from error

    def finished(self) -> None:
        """Count the tokens that the model reported against the limits, instead of the estimate."""
        if self.tokens is not None:
            self.call.count_use(demand_of(self.tokens, self.model.price))


ModelCall = Generator[ModelRequest, Outcome, ModelReport]
"""Send the outcome of each request. Returns the report once a model has answered; raises when none has."""


class ModelChain:
    """The models in order, and which failures lead from one to the next."""

    def __init__(self, models: tuple[tuple[Model, Retrier], ...], fall_back_on: Match) -> None:
        self.models = models
        self._fall_back_on = fall_back_on

    def call(self, arguments: Mapping[str, Any], stream: bool, on_report: Callable[[ModelReport], None]) -> ModelCall:
        """`on_report` gets the report however the call ends."""
        clock = current_clock()
        started = clock.monotonic()
        tried: list[ModelTry] = []
        allows_next = False
        errors: list[tuple[Exception, Failure]] = []
        for model, retrier in self.models:
            request = ModelRequest(model, retrier, arguments, stream)
            outcome = yield request
            if not isinstance(outcome, Failed):
                tried.append(_answered(request))
                break
            error = outcome.error
            failure = retrier.classifier.failure_of(error, clock.wall())
            errors.append((error, failure))
            tried.append(_failed(request, error, failure))
            if not self._falls_back(request.call, error, failure):
                allows_next = len(tried) < len(self.models) and not _is_final(request.call)
                break
        report = made_report(tried, clock.monotonic() - started, allows_next)
        on_report(report)
        if report.answered_by is None:
            raise _error_of(errors, report)
        return report

    def _falls_back(self, call: GuardedCall, error: Exception, failure: Failure) -> bool:
        """Whether another model may do better: overloaded, down, out of credit, circuit open or limit reached."""
        if _is_final(call):
            return False
        if self._fall_back_on.matched_by(failure) is not None or isinstance(error, LimitReachedError):
            return True
        status = failure.status or 0
        return failure.category == "transient" or quota_is_spent(error) or status >= 500 or status in _NO_CREDIT


def _is_final(call: GuardedCall) -> bool:
    """Whether no other model may be asked, whatever the failure."""
    return bool(call.handed_on) or call.may_have_taken_effect()


def _answered(request: ModelRequest) -> ModelTry:
    call, tokens = request.call, request.tokens_or_estimate
    return ModelTry(
        model=request.model.name,
        dependency=request.model.dependency.name,
        outcome="answered",
        attempts=call.history.attempts,
        failures=tuple(_failed_attempt(record) for record in call.failed_attempts()),
        chunks=call.handed_on,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cost=request.model.cost_of(tokens),
        estimated=request.tokens is None,
    )


def _failed(request: ModelRequest, error: Exception, failure: Failure) -> ModelTry:
    call = request.call
    refused = isinstance(error, CircuitOpenError | LimitReachedError)
    records = call.failed_attempts()
    # Inside another guarded call, which owns the retries, the one attempt is reported there.
    failures = tuple(_failed_attempt(record) for record in records) or ((_failure(failure),) if not refused else ())
    # What was handed on was paid for; nobody bills a request that failed before it answered.
    tokens = request.tokens_or_estimate if call.handed_on else Tokens()
    return ModelTry(
        model=request.model.name,
        dependency=request.model.dependency.name,
        outcome="broken off" if call.handed_on else "not called" if refused and not failures else "failed",
        attempts=len(failures),
        failures=failures,
        why=str(error) if refused or call.handed_on else _why(call, failure),
        retry_in=error.retry_in if isinstance(error, CircuitOpenError | LimitReachedError) else failure.retry_after,
        may_pass=failure.category == "transient",
        chunks=call.handed_on,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cost=request.model.cost_of(tokens),
        estimated=bool(call.handed_on) and request.tokens is None,
    )


def _why(call: GuardedCall, failure: Failure) -> str:
    if call.gave_up is None or call.gave_up.kind in ("nested", "permanent", "unknown"):
        return f"{failure.type}: {failure.reason}"
    return call.gave_up.because.detail or failure.reason


def _failed_attempt(record: AttemptRecord) -> FailedAttempt:
    decision = record.decision
    return _failure(record.failure, decision.because.wait if isinstance(decision, RetryAt) else None)


def _failure(failure: Failure, waited: float | None = None) -> FailedAttempt:
    return FailedAttempt(
        error=f"{failure.type}: {failure.message}" if failure.message else failure.type or failure.kind,
        category=failure.category,
        reason=failure.reason,
        status=failure.status,
        waited=waited,
    )


def _error_of(errors: list[tuple[Exception, Failure]], report: ModelReport) -> Exception:
    """Return the error to raise: the only one, or one that stands for all of them."""
    error, _ = errors[-1]
    if len(errors) > 1:
        hopeful = next((error for error, failure in errors if failure.category == "transient"), error)
        told = "; ".join(f"{one.model}: {one.why}" for one in report.tried)
        error = ModelsFailedError(f"no model answered ({told})", [error for error, _ in errors], hopeful)
        if (about_call := call_report_of(hopeful)) is not None:
            attach_call_report(error, about_call)
    attach(error, report)
    return error
