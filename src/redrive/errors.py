"""Every exception that redrive raises, and the signals that your code may raise.

RedriveError
├── signals, raised by your code
│   ├── Permanent                   do not retry this
│   ├── RetryAfter                  retry this after a delay
│   └── Snooze                      run this action again later; no attempt is spent
├── a guarded call or an attempt
│   ├── AttemptTimeoutError         one attempt ran longer than its `attempt_timeout` (TimeoutError)
│   ├── DeadlineExceededError       the call's total deadline passed during an attempt (TimeoutError)
│   ├── ResultRejectedError         `retry_result` rejected the last attempt's result
│   │   └── StageReportedError      a stage returned StageOutput.fail or .retry; in redrive.pipeline
│   ├── CircuitOpenError            the dependency's circuit is open; the call was not made
│   ├── LimitReachedError           the dependency's limit has no room in time; the call was not made
│   ├── ResponseFailedError         a response with status 200 says that it failed or is no answer, or a stream was cut
│   ├── AttemptLostError            the worker died during the attempt
│   ├── CrashLoopError              every worker that ran the flow died
│   ├── HttpStepError               an attempt of an HTTP step failed; in redrive.runners.http.errors
│   └── RelayedError                stands for another error and is classified as that one
│       ├── StreamBrokenError       a stream failed after its first output, so it was not retried
│       ├── ModelsFailedError       every model that a call may fall back to has failed
│       └── PipelineFailedError     a stage failed for good; in redrive.pipeline
├── DefinitionError                 something you wrote is invalid (ValueError)
│   ├── PolicyError                 a policy's field has an invalid value
│   ├── NotationError               a policy written as text cannot be read or written
│   ├── DurationError               a duration cannot be read
│   ├── GraphError                  a graph or a step is invalid
│   ├── ScriptError                 a script is invalid
│   ├── ScheduleError               a schedule is invalid
│   ├── PipelineError               a pipeline is invalid
│   └── EventRefusedError           a pipeline event has an unknown type or wrong fields
├── starting a flow
│   ├── UnknownDefinitionError      nothing is registered under that name (LookupError)
│   ├── ArgumentsError              the arguments do not fit the definition (ValueError)
│   ├── InputError                  an input does not fit the graph (ValueError)
│   ├── PlanError                   the goals cannot be reached (ValueError)
│   ├── ScheduleNotFoundError       the store has no schedule of that name (LookupError)
│   ├── BatchTakenError             the name belongs to a batch with other calls (ValueError)
│   ├── BatchNotFoundError          there is no batch of this name (LookupError)
│   ├── KeyTakenError               the key belongs to a flow with another input (ValueError)
│   ├── NoTransactionError          the connection has no transaction open (ValueError)
│   └── WrongDatabaseError          the connection leads to another database than the store's (ValueError)
├── FlowError                       about one existing flow (also a RuntimeError or a LookupError)
│   ├── FlowNotFoundError           the store has no such flow (LookupError)
│   │   └── AmbiguousFlowError      a key or the beginning of an id stands for several flows
│   ├── RunNotFoundError            the flow has no such run, or it was pruned (LookupError)
│   ├── UnknownStepError            the flow has no such step or item (LookupError)
│   ├── UnknownHandlerError         the flow's definition answers no such query (LookupError)
│   ├── FlowCancelledError          the flow was cancelled, so it has no result
│   ├── ChildFailedError            a child flow failed for good, or was not started
│   ├── FlowFinishedError           the flow has ended and accepts no more messages
│   ├── SignalRefusedError          the flow has no use for such a signal (ValueError)
│   ├── UpdateTimeoutError          an update was not answered in time (TimeoutError)
│   ├── InvalidStateError           the flow or step is not in a state that allows this
│   ├── GraphFailedError            a goal of the graph can no longer be reached
│   ├── NondeterminismError         the workflow's code no longer matches its log
│   ├── WorkflowCodeError           the workflow's code does something that cannot be replayed
│   └── ScriptLimitError            a script exceeded a limit
├── values
│   ├── SerializationError          a value cannot be stored as its type hint says (TypeError)
│   ├── DeserializationError        a stored value does not fit its type hint (ValueError)
│   └── TypeHintError               a type hint cannot be used (TypeError)
├── outcomes of asynchronous steps
│   ├── InvalidOutcomeError         a reported outcome cannot be read (ValueError)
│   └── OutcomeRefusedError         the engine refused an outcome: the attempt is over or unknown
├── SignatureError                  a request to a handler is not signed as it must be
└── StoreError                      about the store
    ├── StoreUnavailableError       it cannot be reached or cannot write now
    │   └── CommitUnknownError      the connection was lost during a commit
    ├── StoreUnusableError          it cannot be used as it is: a missing extra, a wrong address
    │   └── StoreTooNewError        a newer version of redrive has migrated it
    └── LeaseLostError              this worker no longer owns its flows

Names end in `Error`, except for the three signals that your code raises. Where a class also derives from a built-in
exception, that one stands in brackets.
"""

from collections.abc import Sequence
from typing import Any

from redrive.determinism.durations import ALLOWED_FORMS, seconds_in

__all__ = [
    "AmbiguousFlowError",
    "ArgumentsError",
    "AttemptLostError",
    "AttemptTimeoutError",
    "BatchNotFoundError",
    "BatchTakenError",
    "ChildFailedError",
    "CircuitOpenError",
    "CommitUnknownError",
    "CrashLoopError",
    "DeadlineExceededError",
    "DefinitionError",
    "DeserializationError",
    "DurationError",
    "EventRefusedError",
    "FlowCancelledError",
    "FlowError",
    "FlowFinishedError",
    "FlowNotFoundError",
    "GraphError",
    "GraphFailedError",
    "InputError",
    "InvalidOutcomeError",
    "InvalidStateError",
    "KeyTakenError",
    "LeaseLostError",
    "LimitReachedError",
    "ModelsFailedError",
    "NoTransactionError",
    "NondeterminismError",
    "NotationError",
    "OutcomeRefusedError",
    "Permanent",
    "PipelineError",
    "PlanError",
    "PolicyError",
    "RedriveError",
    "RelayedError",
    "ResponseFailedError",
    "ResultRejectedError",
    "RetryAfter",
    "RunNotFoundError",
    "ScheduleError",
    "ScheduleNotFoundError",
    "ScriptError",
    "ScriptLimitError",
    "SerializationError",
    "SignalRefusedError",
    "SignatureError",
    "Snooze",
    "StoreError",
    "StoreTooNewError",
    "StoreUnavailableError",
    "StoreUnusableError",
    "StreamBrokenError",
    "TypeHintError",
    "UnknownDefinitionError",
    "UnknownHandlerError",
    "UnknownStepError",
    "UpdateTimeoutError",
    "WorkflowCodeError",
    "WrongDatabaseError",
]

_LONGEST_VALUE = 64


class RedriveError(Exception):
    """The base class of all redrive exceptions."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take fields, not `args`: an unpickled error is made without calling them.
        return _rebuilt, (type(self), self.args), vars(self)


def _rebuilt(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


# Signals, raised by your code


class Permanent(RedriveError):
    """Raise it to say that no retry will help."""


class RetryAfter(RedriveError):
    """Raise it to ask for a retry after `delay` (seconds, a timedelta, or text such as "30s")."""

    def __init__(self, delay: Any, *args: object) -> None:
        super().__init__(delay, *args)
        self.delay = delay
        self.seconds = _seconds(delay)

    def __str__(self) -> str:
        detail = " ".join(str(part) for part in self.args[1:])
        return detail or f"retry after {self.delay}"


class Snooze(RedriveError):
    """Raise it in an action to run it again after `delay` (seconds, a timedelta, or text such as "30s").

    No attempt is spent: the next one has the same number.
    """

    def __init__(self, delay: Any, *args: object) -> None:
        super().__init__(delay, *args)
        self.delay = delay
        self.seconds = _seconds(delay)

    def __str__(self) -> str:
        detail = " ".join(str(part) for part in self.args[1:])
        return detail or f"snoozed for {self.delay}"


# A guarded call or an attempt


class AttemptTimeoutError(RedriveError, TimeoutError):
    """One attempt ran longer than its `attempt_timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt took longer than its {seconds:g} s")
        self.seconds = seconds


class DeadlineExceededError(RedriveError, TimeoutError):
    """The call's total deadline passed while an attempt was running."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the attempt was cut at the call's deadline of {seconds:g} s")
        self.seconds = seconds


class ResultRejectedError(RedriveError):
    """`retry_result` rejected the result of the last attempt, which is in `.result`."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"the result ({type(result).__name__}) was rejected by retry_result")
        self.result = result


class CircuitOpenError(RedriveError):
    """The call was not made: the dependency's circuit is open, or is recovering and limits its calls."""

    def __init__(self, dependency: str, retry_in: float, *, recovering: bool = False) -> None:
        left = f"{max(0.0, retry_in):.3g} s"
        if recovering:
            told = f"is recovering and limits its calls; the next one is let through in {left}"
        else:
            told = f"is open after repeated failures; next probe in {left}"
        super().__init__(f"the circuit of {dependency!r} {told}")
        self.dependency = dependency
        self.retry_in = retry_in
        self.recovering = recovering


class LimitReachedError(RedriveError):
    """The call was not made: the dependency's limit of requests, tokens or cost has no room for it in time."""

    def __init__(self, dependency: str, limit: str, retry_in: float | None) -> None:
        if retry_in is None:
            told = "the call alone is larger than that; raise the limit, or ask for less"
        else:
            told = f"there is room again in {max(0.0, retry_in):.3g} s"
        super().__init__(f"the limit of {dependency!r} is reached ({limit}); {told}")
        self.dependency = dependency
        self.limit = limit
        """The limit that has no room, such as "200000 tokens per minute"."""
        self.retry_in = retry_in
        """Seconds until there is room; None if there never is."""

    @property
    def retry_after(self) -> float | None:
        return self.retry_in


class ResponseFailedError(RedriveError):
    """A response with status 200 says that it failed, or is no answer; classified by its code, as other errors are."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        """The vendor's code, such as "server_error"; None if it gave none."""


class AttemptLostError(RedriveError):
    """The worker that ran the attempt died, so the attempt's outcome is unknown."""


class CrashLoopError(RedriveError):
    """Every worker that ran the flow died: the flow's own code ends the process that runs it."""


class RelayedError(RedriveError):
    """An error that stands for another one: retries are decided on that one."""

    retries_were_made = False
    """Whether the other error was already retried as often as its policy allows."""

    @property
    def stands_for(self) -> BaseException:
        raise NotImplementedError


class StreamBrokenError(RelayedError):
    """A stream failed after it had yielded output, which a retry would have repeated; `__cause__` is the failure.

    An enclosing guarded call that collects the whole stream may still retry: the failure counts as what it is.
    """

    def __init__(self, chunks: int, error: Exception) -> None:
        count = "1 chunk" if chunks == 1 else f"{chunks} chunks"
        super().__init__(
            f"the stream broke after {count} and was not retried, because that output had been handed on "
            f"({type(error).__name__})"
        )
        self.chunks = chunks
        """How many chunks the consumer got."""
        self.__cause__ = error

    @property
    def stands_for(self) -> BaseException:
        # A copy from another process has no cause.
        return self.__cause__ or RuntimeError(str(self))


class ModelsFailedError(RelayedError):
    """Every model that the call may fall back to has failed; counts as the failure that is most likely to pass."""

    errors: tuple[Exception, ...] = ()
    """What each model failed with, in the order they were tried; empty in another process."""

    def __init__(self, message: str, errors: Sequence[Exception], most_hopeful: Exception) -> None:
        super().__init__(message)
        self.errors = tuple(errors)
        self.__cause__ = most_hopeful

    @property
    def stands_for(self) -> BaseException:
        return self.__cause__ or RuntimeError(str(self))


# Something you wrote is invalid


class DefinitionError(RedriveError, ValueError):
    """A policy, graph, script, pipeline or duration is invalid."""


class PolicyError(DefinitionError):
    """A policy's field has an invalid value: names the field, the value and what is allowed."""

    def __init__(self, message: str, field: str, value: object, allowed: str) -> None:
        super().__init__(message)
        self.field = field
        self.value = value
        self.allowed = allowed


class NotationError(DefinitionError):
    """A policy written as text is invalid: names the source, line, key, value and what is allowed, in one line."""

    def __init__(
        self,
        message: str,
        *,
        problem: str,
        key: str = "",
        value: Any = None,
        allowed: str = "",
        source: str = "<text>",
        line: int | None = None,
        column: int | None = None,
        path: tuple[str | int, ...] = (),
        rule: str = "",
    ) -> None:
        super().__init__(message)
        self.problem = problem
        """What is wrong."""
        self.key = key
        """The key and the way to it, such as "rules[0].backoff"; empty when the text could not be parsed."""
        self.value = value
        """The value of the key."""
        self.allowed = allowed
        """The values that are allowed."""
        self.source = source
        """The file, or "<text>"."""
        self.line = line
        self.column = column
        self.path = path
        """The key as steps from the top of the document: keys of mappings, indexes of lists."""
        self.rule = rule
        """The lint rule about this mistake, where there is one."""


class DurationError(DefinitionError):
    """A duration cannot be read: names the value and the forms that can."""

    def __init__(self, value: object) -> None:
        shown = repr(value)
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[:_LONGEST_VALUE]}…"
        super().__init__(f"{shown} is not a duration: {ALLOWED_FORMS}")


def _seconds(delay: object) -> float:
    seconds = seconds_in(delay)
    if seconds is None:
        raise DurationError(delay)
    return seconds


class ScheduleError(DefinitionError):
    """A schedule is invalid: what is wrong in it, and what to write instead."""


class GraphError(DefinitionError):
    """A graph or a step is invalid: one line for each problem, with its position and what to write instead."""

    def __init__(self, problems: Sequence[NotationError], left_out: int = 0) -> None:
        super().__init__(_lines(problems, left_out))
        self.problems = tuple(problems)
        """Each with `source`, `line`, `key`, `path`, `problem` and `allowed`."""


class ScriptError(DefinitionError):
    """A script is invalid: every problem with its position, the line itself and a caret."""

    def __init__(self, problems: Sequence[Any], left_out: int = 0) -> None:
        super().__init__(_lines(problems, left_out))
        self.problems = tuple(problems)
        """In the order of the text, each with `source`, `line`, `column`, `message`, `severity` and `rule`."""
        self.left_out = left_out
        """How many more problems there are."""


def _lines(problems: Sequence[Any], left_out: int) -> str:
    lines = [str(one) for one in problems]
    if left_out:
        lines.append(f"and {left_out} more problems")
    return "\n".join(lines)


class PipelineError(DefinitionError):
    """A pipeline is invalid: names the stage, what is wrong and what to write instead."""


class EventRefusedError(DefinitionError):
    """A pipeline event has an unknown type, or its fields are not those of its type."""


# Starting a flow


class UnknownDefinitionError(RedriveError, LookupError):
    """Nothing is registered under that name in this process."""

    def __init__(self, kind: str, name: str, hint: str) -> None:
        super().__init__(f"no {kind} is named {name!r}; {hint}")
        self.kind = kind
        self.name = name


class ArgumentsError(RedriveError, ValueError):
    """The given arguments do not fit the definition."""

    def __init__(self, problem: str, name: str = "") -> None:
        super().__init__(problem)
        self.name = name
        """The argument that does not fit, where it is one."""


class InputError(RedriveError, ValueError):
    """An input does not fit what the graph takes."""

    def __init__(self, problem: str, pointer: str) -> None:
        super().__init__(f"inputs{pointer}: {problem}")
        self.problem = problem
        self.pointer = pointer
        """The way to the value, as a JSON pointer below the inputs: "/lines/0"."""


class PlanError(RedriveError, ValueError):
    """The goals cannot be reached: one line for each reason."""

    def __init__(self, lines: Sequence[str], missing: Sequence[str] = ()) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
        self.missing = tuple(missing)
        """The inputs that are missing."""


class ScheduleNotFoundError(RedriveError, LookupError):
    """The store has no schedule of that name."""


class KeyTakenError(RedriveError, ValueError):
    """The key belongs to a flow that was started with another input."""

    def __init__(self, key: str | None, definition: str, flow_id: str) -> None:
        super().__init__(
            f"key {key!r} belongs to {definition} {flow_id}, which was started with another input; "
            "use another key, or the same input"
        )
        self.flow_id = flow_id


class BatchTakenError(RedriveError, ValueError):
    """The name belongs to a batch that was started with other calls."""

    def __init__(self, name: str, total: int) -> None:
        super().__init__(
            f"batch {name!r} was started with other calls ({total:,} of them); use another name, such as one with the "
            "date, or the same calls"
        )


class BatchNotFoundError(RedriveError, LookupError):
    """There is no batch of this name; its flows may have ended so long ago that they were pruned."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(f"there is no batch {name!r} in {address}; see: redrive batch list")
        self.name = name


class NoTransactionError(RedriveError, ValueError):
    """A flow cannot be started on the connection: it has no transaction open that could roll the flow back."""


class WrongDatabaseError(RedriveError, ValueError):
    """A flow cannot be started on the connection: it leads to another database than the store's."""


# One existing flow


class FlowError(RedriveError):
    """The base of errors about one flow."""


class FlowNotFoundError(FlowError, LookupError):
    """The store has no such flow."""

    def __init__(self, flow_id: str, address: str, why: str = "") -> None:
        # An id with unpaired surrogates cannot be stored, and cannot be printed either.
        shown = flow_id if flow_id.isprintable() else ascii(flow_id)
        super().__init__(f"no flow {shown} in {address}; {why or 'list them with: redrive flows'}")
        self.flow_id = flow_id


class AmbiguousFlowError(FlowNotFoundError):
    """A key, or the beginning of an id, stands for several flows."""

    def __init__(self, given: str, message: str) -> None:
        FlowError.__init__(self, message)
        self.flow_id = given


class RunNotFoundError(FlowError, LookupError):
    """The flow has no run of this number, or the run ended so long ago that it was pruned."""


class UnknownStepError(FlowError, LookupError):
    """The flow has no such step, or the step has no such item."""


class FlowCancelledError(FlowError, RuntimeError):
    """The flow was cancelled, so it has no result."""

    def __init__(self, flow_id: str, why: str = "") -> None:
        super().__init__(f"flow {flow_id} was cancelled{': ' if why else ''}{why}")
        self.flow_id = flow_id
        self.why = why
        """The reason given by the step that cancelled the flow; empty where no step did."""


class ChildFailedError(FlowError, RuntimeError):
    """A child flow failed for good, or was not started; `redrive explain` of its id says why."""

    def __init__(self, flow_id: str, definition: str, error_type: str, message: str) -> None:
        name = definition.partition(":")[2] or definition
        if error_type:
            told = f"child {name} failed: {error_type}: {message}; see redrive explain {flow_id}"
        else:
            told = f"child {name} was not started: {message}"
        super().__init__(told)
        self.flow_id = flow_id
        """The child's id."""
        self.definition = definition
        """What the child runs, such as "workflow:Billing"."""
        self.error_type = error_type
        """The type of its error; empty where it was not started."""
        self.message = message


class FlowFinishedError(FlowError, RuntimeError):
    """The flow has ended and accepts no more messages."""

    def __init__(self, flow_id: str, status: str) -> None:
        hint = "; redrive it: redrive dead redrive " + flow_id if status == "failed" else ""
        super().__init__(f"flow {flow_id} is {status}{hint}")
        self.flow_id = flow_id
        self.status = status


class UnknownHandlerError(FlowError, LookupError):
    """The flow's definition has no query of that name."""

    def __init__(self, kind: str, name: str, hint: str) -> None:
        super().__init__(f"the flow's definition has no {kind} {name!r}; {hint}")
        self.kind = kind
        self.name = name


class SignalRefusedError(FlowError, ValueError):
    """The flow has no use for such a signal, or its arguments do not fit the handler."""


class UpdateTimeoutError(FlowError, TimeoutError):
    """The update was not answered in time; it is in the flow's inbox, and may still take effect."""

    def __init__(self, flow_id: str, update: str, timeout: float) -> None:
        super().__init__(
            f"flow {flow_id} has not answered the update {update!r} after {timeout:g} s; it may still take effect"
        )
        self.flow_id = flow_id
        self.update = update


class InvalidStateError(FlowError, RuntimeError):
    """The flow or the step is not in a state that allows this operation."""


class GraphFailedError(FlowError, RuntimeError):
    """A goal of the graph can no longer be reached, although no work item failed for good."""


class NondeterminismError(FlowError, RuntimeError):
    """The workflow's code no longer makes the calls that are in the flow's log."""

    def __init__(self, seq: int, logged: str, now: str, where: str) -> None:
        at = f" ({where})" if where else ""
        super().__init__(
            f"line {seq} of the log says: {logged}; the code now says: {now}{at}. Bring the code back to what it "
            "was for flows that began with it (`if workflow.patched(...)` keeps both), then resume the flow"
        )
        self.seq = seq
        self.logged = logged
        self.now = now
        self.where = where


class WorkflowCodeError(FlowError, RuntimeError):
    """The workflow's code does something that cannot be replayed after a crash."""


class ScriptLimitError(FlowError, RuntimeError):
    """A script took more steps, or made a larger value, than scripts may; the message says where."""


# Values


class SerializationError(RedriveError, TypeError):
    """A value cannot be stored as its type hint says."""


class DeserializationError(RedriveError, ValueError):
    """A stored value does not fit the type hint that it is read with; no later attempt can read it either."""


class TypeHintError(RedriveError, TypeError):
    """A function's type hints cannot be resolved, or JSON has no form for one of them."""


# Outcomes of asynchronous steps


class InvalidOutcomeError(RedriveError, ValueError):
    """The reported outcome of an attempt cannot be read."""

    malformed = False
    """True if the body is not even JSON."""


class OutcomeRefusedError(RedriveError):
    """The engine refused the outcome: the attempt is over, or unknown."""


class SignatureError(RedriveError):
    """A request to a handler is not signed, was changed, or is too old."""


# The store


class StoreError(RedriveError):
    """The base of errors about the store."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or cannot write at the moment; nothing was changed."""


class CommitUnknownError(StoreUnavailableError):
    """The connection was lost during a commit, which may or may not have happened."""


class StoreUnusableError(StoreError):
    """The store cannot be used as it is; the message says what to do."""


class StoreTooNewError(StoreUnusableError):
    """A newer version of redrive has migrated the store, so this version can no longer use it."""


class LeaseLostError(StoreError):
    """The worker's lease expired or was taken over; nothing of the commit was written."""
