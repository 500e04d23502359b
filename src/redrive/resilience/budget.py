"""The retry budget: limits retries to a share of the requests to a dependency, so that they cannot overload it."""

import threading

import msgspec

from redrive.resilience.seconds import check_seconds

BUCKETS = 10
MOST = 1_000_000_000


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many retries a dependency may get."""

    ratio: float = 0.2
    """Retries allowed per request, over the window."""
    floor: int = 10
    """Retries always allowed within a window, so that callers with little traffic can retry too."""
    window: float = 60.0
    """Length of the sliding window in seconds."""

    def __post_init__(self) -> None:
        if not isinstance(self.ratio, int | float) or not 0 <= self.ratio <= 1:
            raise ValueError(f"budget ratio: {self.ratio!r} is not allowed; use a share from 0 to 1")
        if not isinstance(self.floor, int) or not 0 <= self.floor <= MOST:
            raise ValueError(f"budget floor: {self.floor!r:.40} is not allowed; use a whole number from 0 to {MOST}")
        check_seconds("budget window", self.window)


class Reservation(msgspec.Struct, frozen=True):
    """One retry taken from the budget; returned to it if the retry is not made."""

    slot: int


class Budget:
    """The budget of one dependency, shared by all its callers. Safe for use from many threads.

    The window slides in steps of a tenth.
    """

    def __init__(self, settings: BudgetSettings | None = None) -> None:
        self.settings = settings or BudgetSettings()
        if not isinstance(self.settings, BudgetSettings):
            raise TypeError(f"budget: {settings!r} is not allowed; use BudgetSettings(ratio=0.2)")
        self._lock = threading.Lock()
        self._width = self.settings.window / BUCKETS
        self._requests = [0] * BUCKETS
        self._retries = [0] * BUCKETS
        self._awaited = [0] * BUCKETS
        """How many of the retries that leave the window with each bucket a caller in the queue was told to wait for."""
        self._slot: int | None = None
        self._last_in_queue = 0.0
        """When the last caller in the queue asks again."""

    def count_request(self, now: float) -> None:
        with self._lock:
            self._requests[self._slide(now) % BUCKETS] += 1

    def reserve_retry(self, now: float) -> Reservation | None:
        """Take one retry from the budget; None if the budget is spent."""
        with self._lock:
            slot = self._slide(now)
            if self._left() < 1:
                return None
            self._retries[slot % BUCKETS] += 1
            return Reservation(slot)

    def give_back(self, reservation: Reservation, now: float) -> None:
        with self._lock:
            if self._slide(now) - reservation.slot < BUCKETS:
                self._retries[reservation.slot % BUCKETS] -= 1

    def left(self, now: float) -> float:
        """Return how many retries the budget allows now."""
        with self._lock:
            self._slide(now)
            return self._left()

    def line_up(self, now: float) -> float:
        """Queue a caller that found the budget spent, and return when it should ask again.

        Callers are spaced as far apart as the budget requires, but asked back within one window at the latest: by then
        the budget may allow more. None waits longer than until a retry leaves the window that nobody before it waits
        for: retries made at once leave at once.
        """
        with self._lock:
            slot = self._slide(now)
            window = self.settings.window
            after = max(self._last_in_queue, now) + window / max(1.0, self._allowed())
            turn = min(after, now + window)
            for leaving in range(slot - BUCKETS + 1, slot + 1):
                bucket, left_at = leaving % BUCKETS, (leaving + BUCKETS) * self._width
                if left_at >= turn:
                    break
                if self._awaited[bucket] < self._retries[bucket]:
                    self._awaited[bucket] += 1
                    return left_at
            self._last_in_queue = turn
            return turn

    def _left(self) -> float:
        return self._allowed() - sum(self._retries)

    def _allowed(self) -> float:
        return max(self.settings.floor, self.settings.ratio * sum(self._requests))

    def _slide(self, now: float) -> int:
        """Clear the buckets that have left the window, and return the number of the current one; it never decreases."""
        slot = int(now // self._width)
        last = self._slot
        if last is None:
            self._slot = slot
            return slot
        if slot <= last:
            return last
        for passed in range(last + 1, min(slot, last + BUCKETS) + 1):
            self._requests[passed % BUCKETS] = 0
            self._retries[passed % BUCKETS] = 0
            self._awaited[passed % BUCKETS] = 0
        self._slot = slot
        return slot

    def __repr__(self) -> str:
        return f"Budget(ratio={self.settings.ratio}, floor={self.settings.floor}, window={self.settings.window:g})"
