"""What a model call did: which models were tried, why they failed, what it cost, and when to try again.

For a person it is text, for an agent it is plain data.
"""

from typing import Any, Literal

import msgspec

from redrive.failures.known_errors.entries import attribute
from redrive.formatting.text import format_count
from redrive.resilience.limits import in_digits

ATTRIBUTE = "redrive_model_report"


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt."""

    error: str
    """The error's class and text, without secrets."""
    category: str
    """transient, permanent or unknown."""
    reason: str
    """Why it is in that category."""
    status: int | None = None
    waited: float | None = None
    """Seconds until the next attempt; None: there was none."""


class ModelTry(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one model."""

    model: str
    dependency: str
    outcome: Literal["answered", "failed", "not called", "broken off"]
    """not called: circuit open or limit reached. broken off: a stream failed after its first output."""
    attempts: int
    """Requests that were made."""
    failures: tuple[FailedAttempt, ...] = ()
    why: str = ""
    """Why the model was given up; empty when it answered."""
    retry_in: float | None = None
    """Seconds after which the model may be asked again; None: not known, or never with this request."""
    may_pass: bool = False
    """Whether the same request may succeed later."""
    chunks: int = 0
    """Chunks of a stream that were handed on."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    estimated: bool = False
    """Tokens and cost are estimates: the model did not report them."""


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a model call did."""

    answered_by: str | None
    """The model that answered; None: none did."""
    tried: tuple[ModelTry, ...]
    """In order."""
    elapsed: float
    """Seconds."""
    cost: float
    """In the currency of the prices."""
    input_tokens: int
    output_tokens: int
    retry_in: float | None
    """Seconds after which it is worth asking again at the latest; None: not known, or never with this request."""
    advice: str
    """What to do next; empty when a model answered."""
    estimated: bool = False
    """Tokens and cost are estimates, at least in part: a model did not report them."""

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return data

    def __str__(self) -> str:
        head = f"{self.answered_by} answered" if self.answered_by else f"no answer from {_names(self.tried)}"
        about, estimated = ("about ", " (estimated)") if self.estimated else ("", "")
        lines = [
            f"{head} in {self.elapsed:.1f} s; {about}{self.input_tokens} tokens in, {self.output_tokens} out"
            + (f", cost {about}{in_digits(self.cost)}" if self.cost else "")
            + estimated
        ]
        for one in self.tried:
            count = format_count(one.attempts, "request")
            lines.append(f"  {one.model}: {one.outcome}, {count}" + (f"; {one.why}" if one.why else ""))
            lines += [f"    {failed.error} [{failed.category}: {failed.reason}]" for failed in one.failures]
        if self.advice:
            lines.append(f"  next: {self.advice}")
        return "\n".join(lines)


def made_report(tried: list[ModelTry], elapsed: float, allows_next: bool = False) -> ModelReport:
    """Sum up the models that were tried. `allows_next`: there is another one, if the caller allows to ask it."""
    last = tried[-1]
    answered = last.model if last.outcome == "answered" else None
    waits = [one.retry_in for one in tried if one.may_pass and one.retry_in is not None]
    retry_in = min(waits, default=None) if answered is None else None
    return ModelReport(
        answered_by=answered,
        tried=tuple(tried),
        elapsed=elapsed,
        cost=sum(one.cost for one in tried),
        input_tokens=sum(one.input_tokens for one in tried),
        output_tokens=sum(one.output_tokens for one in tried),
        retry_in=retry_in,
        advice="" if answered else _advice(tried, retry_in, allows_next),
        estimated=any(one.estimated for one in tried),
    )


def _advice(tried: list[ModelTry], retry_in: float | None, allows_next: bool) -> str:
    if tried[-1].outcome == "broken off":
        return "part of the answer was handed on; discard it and ask again, or ask for the rest"
    if retry_in is not None:
        sooner = [one.model for one in tried if one.may_pass and one.retry_in is None]
        told = f"ask again in {retry_in:.3g} s"
        return f"{told} at the latest; {', '.join(sooner)} named no time and may answer sooner" if sooner else told
    if any(one.may_pass for one in tried):
        return "the failure is transient; ask again later, or ask another model"
    told = "the same request will fail again; change it, or fix the cause"
    if not allows_next:
        return told
    status = tried[-1].failures[-1].status if tried[-1].failures else None
    return f"{told}, or allow the next model to be asked: fall_back_on={status or '...'}"


def _names(tried: tuple[ModelTry, ...]) -> str:
    return ", ".join(one.model for one in tried)


def attach(error: BaseException, report: ModelReport) -> None:
    """Attach the report to an error; `report_of` finds it."""
    try:
        # Bypass the class's own __setattr__.
        object.__setattr__(error, ATTRIBUTE, report)
    except Exception:  # noqa: BLE001 - the error itself matters more than its report, whatever its class does
        return


def report_of(error: BaseException) -> ModelReport | None:
    """Return the report of a guarded model call that failed; None when the error is not from one."""
    report = attribute(error, ATTRIBUTE)
    return report if isinstance(report, ModelReport) else None
