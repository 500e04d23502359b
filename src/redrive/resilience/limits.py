"""Limits of requests, tokens and cost per dependency: sliding windows that give each call the time it may begin.

Calls are let through in the order they asked. One that has to wait has its place reserved, so those behind it are told
a later time, and nobody wakes up in vain.
"""

import math
import threading
from decimal import Decimal

import msgspec

MINUTE, DAY = 60.0, 86_400.0
MOST = 1e15
# The window slides in steps of this fraction, and an amount counts for up to one step longer than the window.
SLICES = 60


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a dependency all guarded calls of this process together may use; None: no limit.

    The steps and actions of durable flows that name the dependency are counted apart, for their worker.
    """

    requests_per_minute: float | None = None
    """At least 1."""
    tokens_per_minute: float | None = None
    cost_per_day: float | None = None
    """In the currency of the prices that the calls are counted with."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
                raise ValueError(f"{field}: {value!r:.40} is not allowed; use a number above 0, or None for no limit")
        if self.requests_per_minute is not None and self.requests_per_minute < 1:
            raise ValueError(
                f"requests_per_minute: {self.requests_per_minute!r:.40} is not allowed: no call would ever begin; "
                "use a number of at least 1, or None for no limit"
            )


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What one call uses, or is expected to use, besides being one request."""

    tokens: float = 0.0
    cost: float = 0.0


ONE_REQUEST = Demand()


class Grant(msgspec.Struct, frozen=True):
    """A call's place: it may begin at `when`."""

    when: float
    demand: Demand


class Refusal(msgspec.Struct, frozen=True):
    """There is no room in time."""

    limit: str
    """The limit that has none, such as "500 requests per minute"."""
    when: float | None
    """When there would be room; None if the demand is larger than the limit."""


class _Window:
    """What was used of one thing, in slices of time."""

    def __init__(self, most: float, seconds: float, name: str) -> None:
        self.most = most
        self.name = name
        self._width = seconds / SLICES
        self._used: dict[int, float] = {}

    def room_at(self, amount: float, when: float) -> float:
        """Return the first time from `when` on at which the amount fits; infinity if it never does."""
        if amount > self.most:
            return math.inf
        first = self._slot(when) - SLICES
        counted = sorted((slot, spent) for slot, spent in self._used.items() if slot >= first)
        used = sum(spent for _, spent in counted)
        for slot, spent in counted:
            # A tolerance for the errors of sums of fractions.
            if used + amount <= self.most * (1 + 1e-9):
                break
            used -= spent
            when = (slot + 1 + SLICES) * self._width
        return when

    def add(self, amount: float, when: float, now: float) -> None:
        slot, oldest = self._slot(when), self._slot(now) - SLICES
        for passed in [other for other in self._used if other < oldest]:
            del self._used[passed]
        if slot >= oldest:
            self._used[slot] = max(0.0, self._used.get(slot, 0.0) + amount)

    def _slot(self, when: float) -> int:
        # Half a millionth of a slice: the end of a slice, computed, may come out just below itself.
        return math.floor(when / self._width + 5e-7)


class Limits:
    """The limits of one dependency, shared by all its callers in this process. Safe for use from many threads."""

    def __init__(self, settings: LimitSettings) -> None:
        if not isinstance(settings, LimitSettings):
            raise TypeError(f"limits: {settings!r:.60} is not allowed; use LimitSettings(requests_per_minute=500)")
        self.settings = settings
        self._lock = threading.Lock()
        self._requests = _window(settings.requests_per_minute, MINUTE, "request per minute", "requests per minute")
        self._tokens = _window(settings.tokens_per_minute, MINUTE, "token per minute", "tokens per minute")
        self._cost = _window(settings.cost_per_day, DAY, "of cost per day", "of cost per day")
        self._waiting: list[float] = []
        """When the calls begin that have a place and wait for it, in order."""

    def reserve(self, demand: Demand, now: float, until: float | None = None) -> Grant | Refusal:
        """Return the place of a call, behind all that asked before; a Refusal if it would begin at `until` or later."""
        with self._lock:
            when, reached = self._room(demand, now)
            if math.isinf(when):
                return Refusal(reached, None)
            if until is not None and when >= until and when > now:
                return Refusal(reached or "earlier calls wait", when)
            self._add(1, demand, when, now)
            if when > now:
                self._waiting.append(when)
            return Grant(when, demand)

    def room_at(self, now: float) -> float:
        """Return when one more request may begin: now, or later. Nothing is reserved."""
        with self._lock:
            when, _ = self._room(ONE_REQUEST, now)
        return when

    @property
    def seconds_apart(self) -> float:
        """How far apart requests are on average where they use the limit of requests; 0 if there is none."""
        return MINUTE / (self.settings.requests_per_minute or math.inf)

    @property
    def of_requests(self) -> str:
        """The limit of requests, such as "500 requests per minute"; empty if there is none."""
        return "" if self._requests is None else self._requests.name

    def settle(self, grant: Grant, used: Demand, now: float) -> Grant:
        """Replace what the call was expected to use by what it used. The request itself stays counted."""
        difference = Demand(tokens=used.tokens - grant.demand.tokens, cost=used.cost - grant.demand.cost)
        with self._lock:
            self._add(0, difference, grant.when, now)
        return Grant(grant.when, used)

    def give_back(self, grant: Grant, now: float) -> None:
        """Return the place of a call that was not made."""
        with self._lock:
            if grant.when in self._waiting:
                self._waiting.remove(grant.when)
            self._add(-1, Demand(tokens=-grant.demand.tokens, cost=-grant.demand.cost), grant.when, now)

    def _room(self, demand: Demand, now: float) -> tuple[float, str]:
        """Return when a call could begin, behind all that wait, and the limit that it waits for, if any."""
        self._waiting = [when for when in self._waiting if when > now]
        when, reached = max([now, *self._waiting[-1:]]), ""
        for window, amount in self._amounts(1, demand):
            if (room := window.room_at(amount, when)) > when:
                when, reached = room, window.name
        return when, reached

    def _add(self, requests: int, demand: Demand, when: float, now: float) -> None:
        for window, amount in self._amounts(requests, demand):
            window.add(amount, when, now)

    def _amounts(self, requests: int, demand: Demand) -> list[tuple[_Window, float]]:
        amounts = ((self._requests, requests), (self._tokens, demand.tokens), (self._cost, demand.cost))
        return [(window, amount) for window, amount in amounts if window is not None]

    def __repr__(self) -> str:
        return f"Limits({', '.join(window.name for window, _ in self._amounts(0, ONE_REQUEST)) or 'none'})"


def _window(most: float | None, seconds: float, one: str, many: str) -> _Window | None:
    if most is None:
        return None
    return _Window(float(most), seconds, f"{in_digits(most)} {one if most == 1 else many}")


def in_digits(number: float) -> str:
    """Format a number, however small or large, without an exponent: 0.00001, not 1e-05."""
    return format(Decimal(f"{number:.6g}" if number < 1e6 else f"{number:.0f}"), "f")
