"""How long to wait before retry n (0 is the first retry), before jitter. No overflow at any n."""

from typing import Literal

import msgspec

BackoffKind = Literal["constant", "linear", "exponential"]

LONGEST_WAIT = 10 * 365 * 86_400.0
"""Ten years, in seconds: where growth stops when no cap is set, and the largest duration a policy may name."""


class Backoff(msgspec.Struct, frozen=True):
    """Growth of the wait from retry to retry."""

    kind: BackoffKind = "exponential"
    base: float = 0.5
    """Seconds before the first retry."""
    factor: float = 2.0
    """What an exponential wait is multiplied by from one retry to the next."""

    def raw(self, n: int) -> float:
        """exponential base·factor^n, linear base·(n+1), constant base; saturating."""
        if self.kind == "constant" or (self.kind == "exponential" and self.factor == 1):
            return min(self.base, LONGEST_WAIT)
        try:
            grown = self.base * (n + 1) if self.kind == "linear" else self.base * self.factor**n
        except OverflowError:
            # float ** raises where it would reach infinity; an int n may be too large for a float too.
            return LONGEST_WAIT if self.base > 0 else 0.0
        return min(grown, LONGEST_WAIT)


def constant(base: float) -> Backoff:
    return Backoff("constant", base)


def linear(base: float) -> Backoff:
    return Backoff("linear", base)


def exponential(base: float, factor: float = 2.0) -> Backoff:
    return Backoff("exponential", base, factor)
