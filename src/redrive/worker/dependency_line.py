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
    """Begins attempts one after the other, as the dependency's circuit admits them.

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

    def join(self, attempt: Attempt, start: Callable[[], bool]) -> bool:
        """Put the attempt in line; False if it is full. `start` begins the attempt; False if no slot is free."""
        if attempt not in self._waiting and self.is_full:
            return False
        if attempt in self._called:
            # The circuit refused it after all: it keeps its place at the head.
            self._called.discard(attempt)
            self._waiting = {attempt: start, **self._waiting}
        else:
            self._waiting[attempt] = start
        self.look_at(self._next_turn(self._monotonic()))
        return True

    def leave(self, attempt: Attempt) -> None:
        self._waiting.pop(attempt, None)
        self._called.discard(attempt)

    def look_at(self, when: float) -> None:
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
        circuit = self._dependency.circuit
        return now if circuit is None else circuit.next_turn(now)

    def _serve(self) -> None:
        self._armed = None
        for _ in range(SERVED_AT_ONCE):
            if not self._waiting:
                return
            now = self._monotonic()
            turn = self._next_turn(now)
            if turn > now:
                if self._dependency.circuit is not None:
                    self._dependency.circuit.hold_back(now)
                self.look_at(turn)
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
                self.look_at(now + NO_SLOT)
                return
        self.look_at(self._monotonic())
