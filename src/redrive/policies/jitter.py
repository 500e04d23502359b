"""Jitter: spreads waits at random, so that clients that failed together do not retry together."""

import re
from decimal import Decimal
from typing import Literal

import msgspec

JitterKind = Literal["none", "full", "equal", "decorrelated", "additive", "proportional"]

LARGEST_FRACTION = 10.0
"""The most that proportional jitter may add: ten times the wait."""
PERCENTAGE = r"(1000|[0-9]{1,3}(?:\.[0-9]{1,20})?)\s*%"
"""A percentage up to the largest fraction."""


class Jitter(msgspec.Struct, frozen=True):
    """The range from which a wait is drawn.

    With d as the capped backoff: full draws from [0, d], equal from [d/2, d], additive from [d, d + amount],
    proportional from [d, d · (1 + amount)], and decorrelated from [base, 3 · the previous wait]. No wait exceeds the
    cap.
    """

    kind: JitterKind = "additive"
    amount: float = 0.0
    """The most that additive jitter adds, in seconds; or that proportional jitter adds, as a fraction of the wait."""

    def between(self, wait: float, base: float, previous: float | None, cap: float) -> tuple[float, float]:
        """Return the shortest and the longest wait that can be drawn. `wait` has the cap applied already."""
        kind = self.kind
        if kind == "additive":
            return wait, min(wait + self.amount, cap)
        if kind == "proportional":
            return wait, min(wait * (1 + self.amount), cap)
        if kind == "none":
            return wait, wait
        if kind == "full":
            return 0.0, wait
        if kind == "equal":
            return wait / 2, wait
        low = min(base, cap)
        return low, max(low, min(3 * (base if previous is None else previous), cap))


def read_percentage(text: str) -> float | None:
    """Read "10%" or "2.5 %" as a fraction; None for anything else, and for more than 1000 %."""
    found = re.fullmatch(PERCENTAGE, text.strip())
    return float(Decimal(found[1]).scaleb(-2)) if found else None


def write_percentage(fraction: float) -> str:
    """Write a fraction as `read_percentage` reads it."""
    # In decimal, so that 0.07 is 7% and not 7.000000000000001%.
    text = f"{Decimal(repr(float(fraction))).scaleb(2):.20f}"
    return f"{text.rstrip('0').rstrip('.')}%"


NO_JITTER = Jitter("none")
FULL_JITTER = Jitter("full")
