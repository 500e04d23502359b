"""Says that the store is away, in one line now and then, and that it is back."""

import logging
from typing import NamedTuple

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.engine.explain_words import span
from redrive.failures.redaction import redact
from redrive.observability.events import AttemptFailed, Event

log = logging.getLogger("redrive")

TELL_EVERY = 30.0


class _Outage(NamedTuple):
    began: float
    told: float


_outages: dict[str, _Outage] = {}
"""By the address of the store. All that a process wants of a store fails at the same time."""


def store_is_away(address: str, error: object) -> None:
    """It did not answer, and is asked again; `address` shows no password."""
    now = SYSTEM_CLOCK.monotonic()
    outage = _outages.get(address)
    if outage is not None and now - outage.told < TELL_EVERY:
        return
    began = now if outage is None else outage.began
    _outages[address] = _Outage(began, now)
    still = "" if outage is None else f" for {span(float(round(now - began)))} now"
    log.warning(
        "the store %s is away%s: %s; nothing is lost, and work goes on when it is back",
        address,
        still,
        redact(str(error)),
    )


def store_is_back(address: str) -> None:
    outage = _outages.pop(address, None)
    if outage is not None:
        log.warning("the store %s is back after %s", address, span(SYSTEM_CLOCK.monotonic() - outage.began))


def hear_of_outage(address: str, event: Event) -> None:
    """For the hooks of a guarded call to the store."""
    if isinstance(event, AttemptFailed):
        store_is_away(address, event.failure.message)
