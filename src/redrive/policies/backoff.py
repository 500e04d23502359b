"""Backoff: the wait before retry n (0 is the first retry), before cap and jitter. It never overflows."""

from typing import Literal

import msgspec

BackoffKind = Literal["constant", "linear", "exponential"]

LONGEST_WAIT = 10 * 365 * 86_400.0
"""Ten years, in seconds: where backoff stops growing when no cap is set, and the longest duration a policy accepts."""


class Backoff(msgspec.Struct, frozen=True):
    """How the wait grows from retry to retry."""

    kind: BackoffKind = "exponential"
    base: float = 0.5
    """Seconds before the first retry."""
    factor: float = 2.0
    """The multiplier between two exponential waits."""

    def raw(self, n: int) -> float:
        """Return the wait before retry n: exponential base·factor^n, linear base·(n+1), constant base; saturating."""
        if self.kind == "constant" or (self.kind == "exponential" and self.factor == 1):
            return min(self.base, LONGEST_WAIT)
        try:
            grown = self.base * (n + 1) if self.kind == "linear" else self.base * self.factor**n
        except OverflowError:
            # float ** raises instead of returning infinity, and an int n may not fit a float at all.
            return LONGEST_WAIT if self.base > 0 else 0.0
        return min(grown, LONGEST_WAIT)


def constant(base: float) -> Backoff:
    """Wait `base` seconds before every retry."""
    return Backoff("constant", base)


def linear(base: float) -> Backoff:
    """Wait `base` seconds before the first retry, and `base` more before each further one."""
    return Backoff("linear", base)


def exponential(base: float, factor: float = 2.0) -> Backoff:
    """Wait `base` seconds before the first retry, and `factor` times as long before each further one."""
    return Backoff("exponential", base, factor)
