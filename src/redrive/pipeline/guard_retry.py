"""Guards that send a stage back: the settings, and the rounds of one run."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from redrive.pipeline.context import Feedback
from redrive.pipeline.errors import StageReportedError

GuardEnd = Literal["attempts", "time", "no progress"]


class GuardRetry(msgspec.Struct, frozen=True):
    """For a stage of kind GUARD: when the guard fails, `stage` runs again with the guard's error in `ctx.feedback`.

    The stages between that stage and the guard run again too; other stages that depend on them wait for the guard.
    """

    stage: str
    """The stage to send back: a direct or indirect dependency of the guard."""
    attempts: int = 3
    """How often the stage may run, the first time included."""
    time_limit_ms: float | None = None
    """No round starts later than this after the guard's first failure."""
    same_output: int = 2
    """Stop when the stage has given the same output this many times in a row."""
    fields: tuple[str, ...] = ()
    """The values that are compared to tell outputs apart; empty compares all."""

    def __post_init__(self) -> None:
        if not isinstance(self.stage, str) or not self.stage:
            raise ValueError(f"GuardRetry stage: {self.stage!r} is not allowed; name the stage to send back")
        for field, least in (("attempts", 1), ("same_output", 2)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"GuardRetry {field}: {value!r} is not allowed; use a whole number from {least}")
        if not isinstance(self.fields, tuple) or not all(isinstance(one, str) for one in self.fields):
            raise ValueError(f"GuardRetry fields: {self.fields!r} is not allowed; use a tuple of names: ('title',)")
        limit = self.time_limit_ms
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ValueError(f"GuardRetry time_limit_ms: {limit!r} is not allowed; use milliseconds above 0, or None")


class _Rounds:
    """The rounds of one guard in one run."""

    def __init__(self) -> None:
        self.started = 0
        self._first_failure = 0.0
        self._last: Mapping[str, Any] | None = None
        self._same = 0

    def start_another(self, settings: GuardRetry, rejected: Mapping[str, Any], now: float) -> GuardEnd | None:
        """Start another round, or return why there is none."""
        if self._last is None:
            self._first_failure = now
        compared = {name: rejected.get(name) for name in settings.fields} if settings.fields else rejected
        self._same = self._same + 1 if self._last is not None and _equal(self._last, compared) else 1
        self._last = compared
        if self.started + 1 >= settings.attempts:
            return "attempts"
        if settings.time_limit_ms is not None and (now - self._first_failure) * 1000 > settings.time_limit_ms:
            return "time"
        if self._same >= settings.same_output:
            return "no progress"
        self.started += 1
        return None


class GuardRounds:
    """The rounds of all guards in one run, and the feedback that they gave."""

    def __init__(self, outer_feedback: tuple[Feedback, ...]) -> None:
        """`outer_feedback`: that of the stage which this run is, for all its stages."""
        self._outer = outer_feedback
        self._rounds: dict[str, _Rounds] = {}
        self._feedback: dict[str, tuple[Feedback, ...]] = {}

    def feedback_for(self, stage: str) -> tuple[Feedback, ...]:
        return self._feedback.get(stage, self._outer)

    def start_another(
        self, guard: str, settings: GuardRetry, error: StageReportedError, rejected: Mapping[str, Any], now: float
    ) -> tuple[int, GuardEnd | None]:
        """Start another round, with the guard's error as feedback; return the rounds started, and why they ended."""
        rounds = self._rounds.setdefault(guard, _Rounds())
        end = rounds.start_another(settings, rejected, now)
        if end is None:
            feedback = Feedback(guard, error.output.error, error.output.data, rejected, rounds.started)
            self._feedback[settings.stage] = (*self.feedback_for(settings.stage), feedback)
        return rounds.started, end


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - values that cannot be compared (arrays, say) count as progress
        return False
