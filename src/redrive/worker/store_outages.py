"""Log that the store is unavailable, at most every half minute, and that it is back."""

import logging

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.redaction import redact
from redrive.formatting.times import format_duration
from redrive.telemetry.events import AttemptFailed, Event

log = logging.getLogger("redrive")

LOG_EVERY = 30.0
SOON_OVER = 5.0
"""Seconds. When a store flaps (a nearly full disk, say), outages shorter than this are not all logged."""


class _Outage:
    """An outage of a store, or its last one."""

    def __init__(self, now: float) -> None:
        self.began: float | None = now
        """None once the store is back."""
        self.logged_at = now
        self.logged_away = True
        """Whether the last line said that the store is away, not that it is back."""

    def is_news(self, now: float) -> bool:
        new = not self.logged_away and self.began is not None and now - self.began >= SOON_OVER
        return new or now - self.logged_at >= LOG_EVERY


_outages: dict[str, _Outage] = {}
"""By the store's address: all of a process's calls to one store fail at the same time."""


def log_outage(address: str, error: object) -> None:
    """Log that the store did not answer, unless that is known. `address` must not contain a password."""
    now = SYSTEM_CLOCK.monotonic()
    outage = _outages.get(address)
    still = ""
    if outage is None:
        _outages[address] = _Outage(now)
    else:
        outage.began = now if outage.began is None else outage.began
        if not outage.is_news(now):
            return
        outage.logged_at, outage.logged_away = now, True
        still = f" for {format_duration(float(round(now - outage.began)))} now"
    log.warning(
        "the store %s is unavailable%s: %s; nothing is lost, and work resumes when it is back",
        address,
        still,
        redact(str(error)),
    )


def log_recovery(address: str) -> None:
    """Log that the store is back. Call this after a write: a store that only answers may be read-only."""
    outage = _outages.get(address)
    if outage is None or outage.began is None:
        return
    now, began = SYSTEM_CLOCK.monotonic(), outage.began
    outage.began = None
    if outage.logged_away:
        outage.logged_at, outage.logged_away = now, False
        log.warning("the store %s is back after %s", address, format_duration(now - began))


def is_away(address: str) -> bool:
    outage = _outages.get(address)
    return outage is not None and outage.began is not None


def forget_outage(address: str) -> None:
    """Forget what was known of a store: for simulations, which have others at the same addresses."""
    _outages.pop(address, None)


def log_outage_of(address: str, event: Event) -> None:
    """Log the outage behind an event of a guarded call to the store."""
    if isinstance(event, AttemptFailed):
        log_outage(address, event.failure.message)
