"""Jitter: spreads waits at random, so that clients that failed together do not retry together."""

from typing import Literal

import msgspec

JitterKind = Literal["none", "full", "equal", "decorrelated", "additive"]


class Jitter(msgspec.Struct, frozen=True):
    """The range from which a wait is drawn.

    With d as the capped backoff: full draws from [0, d], equal from [d/2, d], additive from [d, d + amount], and
    decorrelated from [base, 3 · the previous wait]. No wait exceeds the cap.
    """

    kind: JitterKind = "additive"
    amount: float = 0.0
    """The most that additive jitter adds, in seconds."""

    def between(self, wait: float, base: float, previous: float | None, cap: float) -> tuple[float, float]:
        """Return the shortest and the longest wait that can be drawn. `wait` has the cap applied already."""
        kind = self.kind
        if kind == "additive":
            return wait, min(wait + self.amount, cap)
        if kind == "none":
            return wait, wait
        if kind == "full":
            return 0.0, wait
        if kind == "equal":
            return wait / 2, wait
        low = min(base, cap)
        return low, max(low, min(3 * (base if previous is None else previous), cap))


NO_JITTER = Jitter("none")
FULL_JITTER = Jitter("full")
