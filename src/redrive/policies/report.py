"""The report attached to the error of a call that gave up: every attempt, why it ended and what to do next."""

import builtins

import msgspec

from redrive.failures.failure import Failure
from redrive.failures.known_errors.entries import attribute
from redrive.failures.matching import NOTHING
from redrive.near_names import NEARLY_THE_SAME, near_name
from redrive.policies.decision import Decision, GiveUp, RetryAt
from redrive.policies.policy import Policy

NOTE_PREFIX = "redrive: "
ATTRIBUTE = "redrive"


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt and the decision about it. Times are seconds since the start of the first attempt."""

    number: int
    began: float
    ended: float
    failure: Failure
    decision: Decision


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call gave up."""

    operation: str
    attempts: tuple[AttemptRecord, ...]
    """The failed attempts; when there were very many, the first and the latest ones."""
    left_out: int = 0
    """Attempts between those that were not kept."""
    elapsed: float
    gave_up: GiveUp
    next_step: str
    """What a person can do about it."""

    @property
    def made(self) -> int:
        """The number of attempts."""
        return len(self.attempts) + self.left_out

    def __str__(self) -> str:
        lines = [self.headline()]
        latest = 0
        for record in self.attempts:
            if self.left_out and record.number > latest + 1:
                lines.append(f"             … {self.left_out} more attempts …")
            latest = record.number
            failure, decision = record.failure, record.decision
            what = f"{failure.type}: {failure.message}" if failure.message else failure.type or failure.kind
            reason = failure.reason
            retried = isinstance(decision, RetryAt) or decision.kind in ("exhausted", "deadline")
            if retried and failure.category != "transient":
                # The policy names it already, so the advice on how to declare it is left out.
                reason = f"{reason.partition(': ')[0]}, but the policy retries it"
            line = f"  {record.began:8.3f} s  attempt {record.number}: {what} [{failure.category}: {reason}]"
            if isinstance(decision, RetryAt):
                line += f"; waited {decision.because.wait:.3f} s"
            lines.append(line)
        lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)

    def headline(self) -> str:
        """How the call ended, in one line."""
        count = "1 attempt" if self.made == 1 else f"{self.made} attempts"
        return (
            f"{self.operation}: gave up after {count} in {self.elapsed:.3f} s "
            f"({self.gave_up.kind}): {self.gave_up.because.detail}"
        )


def report_of(ending: object) -> Report | None:
    """Return the report of a guarded call that gave up; None when there is none.

    `ending` is the error the call raised, the last response an HTTP integration returned, or the status error raised
    for that response.
    """
    report = attribute(ending, ATTRIBUTE)
    if report is None and isinstance(ending, BaseException):
        report = attribute(attribute(ending, "response"), ATTRIBUTE)
    return report if isinstance(report, Report) else None


def attach(error: BaseException, report: Report) -> None:
    """Attach the report to the error, and add its headline and next step to the traceback as a note."""
    note = f"{NOTE_PREFIX}{report.headline()}. Next: {report.next_step}"
    try:
        # Bypass the class's own __setattr__, which a frozen dataclass, for one, makes fail.
        object.__setattr__(error, ATTRIBUTE, report)
        # An error object may be raised repeatedly; it keeps only the latest note.
        kept = [other for other in attribute(error, "__notes__") or () if not str(other).startswith(NOTE_PREFIX)]
        object.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: BLE001 - the error itself matters more than its report, whatever its class does
        return


def next_step(gave_up: GiveUp, failure: Failure | None, dependency: str | None, policy: Policy | None = None) -> str:
    """Say what a person can do now. `policy`: to find the name in it that was probably meant for the error."""
    service = dependency or "the other side"
    name = failure.type.rpartition(".")[2] if failure and failure.type else "the error"
    if policy is not None and gave_up.kind in ("unknown", "unmatched"):
        if meant := _misspelled(name, policy):
            return f"the policy names {meant}; did you mean {name}?"
        if policy.rules and policy.retry_on == NOTHING:
            return f"the policy does not name it; if a retry may help, add: [{name} -> retry: 3]"
    steps = {
        "permanent": f"retrying will not help ({gave_up.because.reason}); fix the cause and call again",
        "unknown": (
            f"{name} is not classified; if it is transient, say so: retry_on=(TRANSIENT, {name}) or a classifier rule"
        ),
        "unmatched": (
            f"the policy does not name it, though it is transient; add it: retry_on=(…, {name}), or retry_on=TRANSIENT"
        ),
        "not_idempotent": (
            "check whether it took effect; to allow retries, send an idempotency key that the other side honours "
            "and declare idempotent=True"
        ),
        "exhausted": f"check {service}; if such outages are normal, allow more attempts or queue the work for later",
        "retry_after": f"call again after the time {service} asked for, or raise max_retry_after",
        "deadline": f"check {service}; if it may take this long, allow a longer deadline",
        "budget": f"check {service}: too many calls to it are retries already; call again when it has recovered",
        "circuit_open": f"check {service}; calls go through again once a probe succeeds",
        "abandoned": "nothing: the work that needed this outcome has failed or finished",
        "nested": "nothing here: the enclosing guarded call decides about retries",
        "poison": (
            "its input or its result does not fit the current code; fix the code, or restore the previous version"
            if failure is not None and failure.poison
            else "find out from its error and its input why its workers died or were blocked, and fix that"
        ),
        "output_handed_on": (
            "discard what the stream has yielded and start it again, or ask for the rest; "
            "whoever collects a whole stream inside one guarded function gets it retried"
        ),
        "rate_limit": (
            f"raise the limits of {service}, or ask for less"
            if gave_up.because.category == "permanent"
            else f"call again later, or raise the limits of {service}"
        ),
        "not_replayable": "send a body that can be read again (bytes or a seekable file) to allow retries",
    }
    return steps[gave_up.kind]


def _misspelled(name: str, policy: Policy) -> str:
    """Return the name in the policy that is almost the error's, unless a built-in exception has it."""
    named = [one for match in (policy.retry_on, *(rule.match for rule in policy.rules)) for one in match.names]
    return near_name(name, [one for one in named if not hasattr(builtins, one)], NEARLY_THE_SAME)
