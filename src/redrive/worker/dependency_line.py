"""The queue of attempts that wait for one dependency, in the order in which they came."""

from collections import deque
from collections.abc import Callable

from redrive.resilience.dependencies import Dependency

Attempt = tuple[str, int]
"""Flow id and item number."""

Alarm = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Calls back at a monotonic time, or before it; returns a function that cancels it."""

# Attempts that begin in one turn of the event loop.
SERVED_AT_ONCE = 50
# Seconds until the line is served again after its first attempt found no free slot.
NO_SLOT = 0.1


class DependencyLine:
    """Begins attempts one after the other, as the dependency's circuit and limits admit them.

    A flow may leave memory while its attempt is in line: the attempt keeps its place, but is skipped if the flow is
    still away when its turn comes.
    """

    def __init__(self, dependency: Dependency, most: int, monotonic: Callable[[], float], alarm: Alarm) -> None:
        self._dependency = dependency
        self._most = most
        self._monotonic = monotonic
        self._alarm = alarm
        self._waiting: dict[Attempt, Callable[[], bool]] = {}
        self._armed: tuple[float, Callable[[], None]] | None = None
        self._served: Attempt | None = None
        self._called: set[Attempt] = set()
        """Attempts whose turn came when no slot was free: they begin as soon as they get one."""
        self._outside: deque[float] = deque()
        """When the attempts that found the line full come back, earliest first."""
        self._last_outside = 0.0
        """When the last attempt comes back that `turn` told that the line is full."""

    def __len__(self) -> int:
        return len(self._waiting)

    def lets_pass(self, attempt: Attempt) -> bool:
        """Whether no other attempt is ahead of this one."""
        return attempt == self._served or attempt in self._called or not self._waiting

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._most

    def ahead(self, now: float) -> float:
        """Estimate how many attempts begin before a new one does or, if the line is full, before it gets a place."""
        outside = self._outside
        while outside and outside[0] <= now:
            outside.popleft()
        return len(self._waiting) / 2 + len(outside) if self.is_full else len(self._waiting) + 1

    def stay_outside(self, until: float) -> None:
        """Count an attempt that found the line full, and comes back at this time."""
        self._outside.append(until)

    def turn(self, first: float, apart: float, latest: float) -> float:
        """Return when an attempt begins if one does every `apart` seconds, or when it gets a place if the line is full.

        Those that find the line full come back in the order in which they came, and when half of the line has begun.
        first: when the first in line begins. latest: when to ask again, however many are ahead.
        """
        if not self.is_full:
            return min(first + len(self._waiting) * apart, latest)
        self._last_outside = min(max(self._last_outside, first + len(self._waiting) / 2 * apart) + apart, latest)
        return self._last_outside

    def join(self, attempt: Attempt, start: Callable[[], bool]) -> bool:
        """Put the attempt in line; False if it is full. `start` begins the attempt; False if no slot is free."""
        if attempt not in self._waiting and self.is_full:
            return False
        if attempt in self._called:
            # The circuit or the limit refused it after all: it keeps its place at the head.
            self._called.discard(attempt)
            self._waiting = {attempt: start, **self._waiting}
        else:
            self._waiting[attempt] = start
        self.look_again()
        return True

    def leave(self, attempt: Attempt) -> None:
        self._waiting.pop(attempt, None)
        self._called.discard(attempt)

    def look_again(self) -> None:
        """Check whether the first in line may begin once its turn comes, which may be at another time than before."""
        now = self._monotonic()
        if self._dependency.circuit is not None:
            # A recovery is not over while work waits for room.
            self._dependency.circuit.hold_back(self._room_at(now))
        self._look_at(self._next_turn(now))

    def _look_at(self, when: float) -> None:
        """Check at this time, or before it, whether the first in line may begin."""
        if not self._waiting or self._served is not None:
            return
        if self._armed is not None:
            if self._armed[0] <= when:
                return
            self._armed[1]()
        self._armed = when, self._alarm(when, self._serve)

    def close(self) -> None:
        self._waiting.clear()
        self._called.clear()
        if self._armed is not None:
            self._armed[1]()
            self._armed = None

    def _next_turn(self, now: float) -> float:
        """Return when the first in line may begin, at the latest."""
        circuit = self._dependency.circuit
        return max(self._room_at(now), now if circuit is None else circuit.next_turn(now))

    def _room_at(self, now: float) -> float:
        limits = self._dependency.limits
        return now if limits is None else limits.room_at(now)

    def _serve(self) -> None:
        self._armed = None
        for _ in range(SERVED_AT_ONCE):
            if not self._waiting:
                return
            now = self._monotonic()
            if self._next_turn(now) > now:
                self.look_again()
                return
            attempt = next(iter(self._waiting))
            start = self._waiting.pop(attempt)
            self._served = attempt
            try:
                has_slot = start()
            finally:
                self._served = None
            if not has_slot:
                self._called.add(attempt)
                self._look_at(now + NO_SLOT)
                return
        self._look_at(self._monotonic())
