"""Says that the store is away, in one line now and then, and that it is back."""

import logging

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.redaction import redact
from redrive.formatting.times import format_duration
from redrive.telemetry.events import AttemptFailed, Event

log = logging.getLogger("redrive")

TELL_EVERY = 30.0
SOON_OVER = 5.0
"""Seconds. Where a store comes and goes (a disk that is nearly full), what is over sooner is not told each time."""


class _Outage:
    """What is known of a store that was away."""

    def __init__(self, now: float) -> None:
        self.began: float | None = now
        """None once it is back."""
        self.told = now
        """When something was last said,"""
        self.said_away = True
        """and whether it was that the store is away."""

    def is_news(self, now: float) -> bool:
        new = not self.said_away and self.began is not None and now - self.began >= SOON_OVER
        return new or now - self.told >= TELL_EVERY


_outages: dict[str, _Outage] = {}
"""By the address of the store. All that a process wants of a store fails at the same time."""


def store_is_away(address: str, error: object) -> None:
    """It did not answer, and is asked again; `address` shows no password."""
    now = SYSTEM_CLOCK.monotonic()
    outage = _outages.get(address)
    still = ""
    if outage is None:
        _outages[address] = _Outage(now)
    else:
        outage.began = now if outage.began is None else outage.began
        if not outage.is_news(now):
            return
        outage.told, outage.said_away = now, True
        still = f" for {format_duration(float(round(now - outage.began)))} now"
    log.warning(
        "the store %s is away%s: %s; nothing is lost, and work goes on when it is back",
        address,
        still,
        redact(str(error)),
    )


def store_is_back(address: str) -> None:
    """It took what was written: one that only answers may have become read-only."""
    outage = _outages.get(address)
    if outage is None or outage.began is None:
        return
    now, began = SYSTEM_CLOCK.monotonic(), outage.began
    outage.began = None
    if outage.said_away:
        outage.told, outage.said_away = now, False
        log.warning("the store %s is back after %s", address, format_duration(now - began))


def is_away(address: str) -> bool:
    outage = _outages.get(address)
    return outage is not None and outage.began is not None


def hear_of_outage(address: str, event: Event) -> None:
    """For the hooks of a guarded call to the store."""
    if isinstance(event, AttemptFailed):
        store_is_away(address, event.failure.message)
