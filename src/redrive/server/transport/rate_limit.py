"""Limit the rate of requests: one token bucket per client."""

from collections import OrderedDict

from redrive.determinism.clock import current_clock

MOST_BUCKETS = 10_000


class RateLimiter:
    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = current_clock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Client -> (tokens, when they were counted), the least recently used first."""

    def acquire(self, client: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock.monotonic()
        tokens, at = self._buckets.get(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._rate)
        acquired = tokens >= 1.0
        self._buckets[client] = (tokens - 1.0 if acquired else tokens, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if acquired else (1.0 - tokens) / self._rate
