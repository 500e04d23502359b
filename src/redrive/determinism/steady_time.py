"""A calendar time that never goes back: what is due at a time does not wait longer because someone set the clock."""

import logging
import time

RATE = 0.9
"""How fast the time runs while it is ahead of the machine's clock: it waits for the clock instead of going back."""
NOTED_EVERY = 0.1
"""Seconds after which the time and the monotonic clock are noted together again."""
NEWS = 1.0
"""By how many seconds the clock is set back before that is logged."""
log = logging.getLogger("redrive")


class SteadyTime:
    """Follows the machine's clock forward at once; when the clock is set back, it runs slower until they agree."""

    def __init__(self) -> None:
        # One tuple, since several threads read and replace it.
        self._noted = (time.time(), time.monotonic())
        self._last = self._noted[0]
        self._is_ahead = False

    def now(self) -> float:
        """Return the time in epoch seconds."""
        wall = time.time()
        if self._last <= wall < self._noted[0] + NOTED_EVERY:
            self._last = wall
            return wall
        monotonic = time.monotonic()
        noted, noted_monotonic = self._noted
        least = max(noted + RATE * (monotonic - noted_monotonic), self._last)
        if wall >= least:
            self._is_ahead = False
            self._noted, self._last = (wall, monotonic), wall
            return wall
        if least - wall > NEWS and not self._is_ahead:
            self._is_ahead = True
            log.warning(
                "the clock of this machine was set back by %.0f s; flows keep their own time, which runs at %.0f %% of"
                " its speed until the clock has caught up",
                least - wall,
                100 * RATE,
            )
        self._noted, self._last = (least, monotonic), least
        return least

    def keep_up_with(self, ahead_of_monotonic: float) -> None:
        """Go on from the time of another process of this machine, given as its distance from the monotonic clock."""
        monotonic = time.monotonic()
        if ahead_of_monotonic + monotonic > self.now() + NEWS:
            self._noted = ahead_of_monotonic + monotonic, monotonic
            self._last = self._noted[0]
