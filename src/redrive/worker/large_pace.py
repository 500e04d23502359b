"""When the next large commit may begin: small ones get half of the time, while there are any."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redrive.determinism.clock import SYSTEM_CLOCK, current_clock

LONGEST_REST = 1.0
"""Seconds: a store that has become slow must not be left idle for as long."""


class LargePace:
    """Pauses after a large commit for as long as it took: a small flow waits behind one, not at each of its commits.

    A store writes one thing at a time, or slowly where it writes several.
    """

    def __init__(self) -> None:
        self._has_met_small = False
        """Whether anything small was written since the last large commit began."""
        self._until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        # On a virtual clock nothing takes long.
        self._is_real = current_clock() is SYSTEM_CLOCK

    def met_small(self) -> None:
        self._has_met_small = True

    def rests(self, wake: Callable[[], None]) -> bool:
        """Whether no large commit may begin yet; `wake` is called when one may."""
        left = self._until - SYSTEM_CLOCK.monotonic() if self._has_met_small and self._is_real else 0.0
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if left <= 0:
            return False
        self._alarm = asyncio.get_running_loop().call_later(left, wake)
        return True

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Write a large commit in this block."""
        self._has_met_small, began = False, SYSTEM_CLOCK.monotonic()
        yield
        now = SYSTEM_CLOCK.monotonic()
        self._until = now + min(now - began, LONGEST_REST)
