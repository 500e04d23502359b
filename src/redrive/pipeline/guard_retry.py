"""How often a guard may send a stage back to work, and when that is over: attempts, time, no progress."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

GuardEnd = Literal["attempts", "time", "no progress"]


class GuardRetry(msgspec.Struct, frozen=True):
    """For a stage of kind GUARD: when it fails, `stage` works again, with the guard's words in `ctx.feedback`.

    What lies between that stage and the guard is done again too; other stages that depend on them wait for the guard.
    """

    stage: str
    """The stage that is sent back: a dependency of the guard, direct or not."""
    attempts: int = 3
    """How often it may work in all, the first time included."""
    time_limit_ms: float | None = None
    """No round begins later than this after the guard's first failure."""
    same_output: int = 2
    """It is over when the stage has given the same output this many times in a row."""
    fields: tuple[str, ...] = ()
    """The values that tell outputs apart; empty: all of them."""

    def __post_init__(self) -> None:
        if not isinstance(self.stage, str) or not self.stage:
            raise ValueError(f"GuardRetry stage: {self.stage!r} is not allowed; name the stage that is sent back")
        for field, least in (("attempts", 1), ("same_output", 2)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"GuardRetry {field}: {value!r} is not allowed; use a whole number from {least}")
        if not isinstance(self.fields, tuple) or not all(isinstance(one, str) for one in self.fields):
            raise ValueError(f"GuardRetry fields: {self.fields!r} is not allowed; use a tuple of names: ('title',)")
        limit = self.time_limit_ms
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ValueError(f"GuardRetry time_limit_ms: {limit!r} is not allowed; use milliseconds above 0, or None")


class Rounds:
    """How the rounds of one guard in one run go."""

    __slots__ = ("_began", "_last", "_same", "count", "settings")

    def __init__(self, settings: GuardRetry) -> None:
        self.settings = settings
        self.count = 0
        """Rounds that were begun."""
        self._began = 0.0
        self._last: Mapping[str, Any] | None = None
        self._same = 0

    def another(self, rejected: Mapping[str, Any], now: float) -> GuardEnd | None:
        """Begin another round; or why there is none."""
        settings = self.settings
        if self._last is None:
            self._began = now
        compared = {name: rejected.get(name) for name in settings.fields} if settings.fields else rejected
        self._same = self._same + 1 if self._last is not None and _equal(self._last, compared) else 1
        self._last = compared
        if self.count + 1 >= settings.attempts:
            return "attempts"
        if settings.time_limit_ms is not None and (now - self._began) * 1000 > settings.time_limit_ms:
            return "time"
        if self._same >= settings.same_output:
            return "no progress"
        self.count += 1
        return None


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - values that cannot be compared (arrays, say) count as progress
        return False
