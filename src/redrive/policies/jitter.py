"""How chance spreads a wait, so that clients that failed together do not come back together."""

from typing import Literal

import msgspec

JitterKind = Literal["none", "full", "equal", "decorrelated", "additive"]


class Jitter(msgspec.Struct, frozen=True):
    """Where in a range the wait is drawn.

    With d the capped backoff: full draws from [0, d], equal from [d/2, d], additive from [d, d + amount] and
    decorrelated from [base, 3 · the previous wait]; what is drawn never exceeds the cap.
    """

    kind: JitterKind = "additive"
    amount: float = 0.0
    """Seconds that additive jitter adds at most."""

    def between(self, wait: float, base: float, previous: float | None, cap: float) -> tuple[float, float]:
        """The lowest and the highest wait chance may draw; `wait` is capped already."""
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
