"""The outcome of a flow in a test."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from redrive.flows.events import AttemptFailed, AttemptReturned, ItemAdded, ItemGaveUp, ItemStarted, Line, TimerSet
from redrive.flows.history import FlowHistory, fold
from redrive.policies.decision import RetryAt
from redrive.stores.records import FlowStatus
from redrive.testing.crash_points import Execution


@dataclass(frozen=True, kw_only=True)
class FlowOutcome:
    """The result, log and attempts of a flow."""

    flow_id: str
    status: FlowStatus
    """ "completed", "failed" or "cancelled"; or "parked" or "paused", when it does not continue by itself."""
    _result: Any = None
    error: BaseException | None = None
    """What `handle.result()` raises."""
    lines: tuple[Line, ...] = ()
    """The lines of its log."""
    executed: tuple[Execution, ...] = ()
    """The attempts that were started, in order."""
    began: float = 0.0
    ended: float = 0.0
    """When it was started, and the time of the last line of its log, in epoch seconds of the virtual clock."""

    @property
    def result(self) -> Any:
        """The flow's result; like `handle.result()`, raises the error of a flow that did not complete."""
        if self.error is not None:
            raise self.error
        if self.status != "completed":
            raise AssertionError(
                f"the flow has no result, it is {self.status}: {self.problem or 'it is waiting'}\n{self}"
            )
        return self._result

    @property
    def duration(self) -> float:
        """Seconds from start to end, in virtual time."""
        return self.ended - self.began

    @property
    def waits(self) -> list[float]:
        """The waits between attempts in seconds, in the order of the log."""
        return [
            line.event.decision.because.wait
            for line in self.lines
            if isinstance(line.event, AttemptFailed) and isinstance(line.event.decision, RetryAt)
        ]

    @property
    def sleeps(self) -> list[float]:
        """The timers that the workflow set (sleep, timeout, wait_for), in seconds."""
        return [round(line.event.until - line.at, 6) for line in self.lines if isinstance(line.event, TimerSet)]

    @property
    def history(self) -> FlowHistory:
        """The state of each work item, according to the log."""
        return fold(list(self.lines))

    @property
    def attempts(self) -> dict[int, int]:
        """Work item number -> its attempts."""
        return {number: item.attempt for number, item in self.history.items.items()}

    @property
    def problem(self) -> str | None:
        """Why it is parked; None when it is not."""
        return self.history.parked

    @property
    def steps(self) -> list[str]:
        """The actions that the workflow called, in order."""
        return [line.event.step for line in self.lines if isinstance(line.event, ItemAdded)]

    def ending(self) -> str:
        """How it ended, in one line."""
        if self.error is not None:
            return f"{self.status} with {type(self.error).__name__}: {self.error}"
        return f"{self.status} with {self.result!r}" if self.status == "completed" else self.status

    def __str__(self) -> str:
        return "\n".join([f"flow {self.flow_id}: {self.ending()} after {self.duration:g} s", *self._log()])

    def _log(self) -> Iterator[str]:
        for seq, at, event in self.lines:
            fields = [f"{name}={value}" for name in _SHOWN if (value := getattr(event, name, None)) not in (None, "")]
            words = [type(event).__name__, *fields, _detail(event)]
            yield f"{seq:>5} {at - self.began:>12.3f} s  {' '.join(word for word in words if word)}"


_SHOWN = ("item", "step", "attempt", "timer", "patch", "kind", "by", "why", "problem", "since", "reason")


def _detail(event: Any) -> str:
    if isinstance(event, ItemAdded):
        started = isinstance(event, ItemStarted)
        return f"{bytes(event.args).decode()[:200]}{' attempt=1' if started else ''}"
    if isinstance(event, AttemptFailed | ItemGaveUp):
        decision = event.decision
        then = f"retry in {decision.because.wait:g} s" if isinstance(decision, RetryAt) else f"gave up: {decision.kind}"
        return f"{event.error.type}: {event.error.message} [{event.failure.kind}] -> {then}"
    if isinstance(event, AttemptReturned):
        return f"until {event.until:.3f}"
    result, error = getattr(event, "result", None), getattr(event, "error", None)
    if error is not None:
        return f"{error.type}: {error.message}"
    return f"{bytes(result).decode()[:200]}" if isinstance(result, msgspec.Raw) else ""
