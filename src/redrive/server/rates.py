"""How often someone may ask: a bucket of tokens for each, filled at a steady rate."""

from collections import OrderedDict

from redrive.determinism.clock import current_clock

MOST_BUCKETS = 10_000


class Rates:
    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = current_clock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Who -> (tokens, when that was so), the longest unused first."""

    def wait(self, who: str) -> float:
        """Take a token; the seconds until there is one when there is none, else 0."""
        now = self._clock.monotonic()
        tokens, at = self._buckets.get(who, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._rate)
        taken = tokens >= 1.0
        self._buckets[who] = (tokens - 1.0 if taken else tokens, now)
        self._buckets.move_to_end(who)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1.0 - tokens) / self._rate
