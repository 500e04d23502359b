"""The outages in `redrive demo --dashboard`, as data: when each comes and goes, and what callers get."""

import msgspec

from redrive.testing import Reply

PERIOD = 600.0
"""Seconds after which the outages begin again."""
SERVICES = ("payments", "mail", "carrier", "warehouse")


class Outage(msgspec.Struct, frozen=True):
    service: str
    begins: float
    """Seconds since the demo began, in each period."""
    ends: float
    reply: Reply
    words: str
    """What is wrong, for the terminal."""
    share: float = 1.0
    """How many of the calls fail."""

    @property
    def seconds(self) -> float:
        return self.ends - self.begins


_DOWN = Reply(status=503, body={"error": "the payment gateway is down for maintenance"})
_TOO_MANY = Reply(status=429, headers={"Retry-After": "20"}, body={"error": "too many mails"})

OUTAGES = (
    Outage("mail", 20, 70, _TOO_MANY, "answers 429 and asks to retry after 20 s"),
    Outage("payments", 60, 180, _DOWN, "answers 503 to every call"),
    Outage("carrier", 130, 215, Reply(fault="close"), "drops half of its connections", share=0.5),
    Outage("payments", 250, 295, Reply(fault="reset"), "resets every connection"),
    Outage("warehouse", 285, 340, Reply(status=500, body={"error": "deadlock detected"}), "fails 4 calls in 5", 0.8),
    Outage("mail", 330, 400, _TOO_MANY, "answers 429 and asks to retry after 20 s"),
    Outage("payments", 390, 520, _DOWN, "answers 503 to every call"),
    Outage("carrier", 450, 560, Reply(status=502), "answers 502 to 3 calls in 4", 0.75),
)


def outage_of(service: str, elapsed: float) -> Outage | None:
    """Return the outage that the service has now; `elapsed` is in seconds since the demo began."""
    at = elapsed % PERIOD
    for outage in OUTAGES:
        if outage.service == service and outage.begins <= at < outage.ends:
            return outage
    return None


def changes_between(before: float, now: float) -> list[tuple[Outage, bool]]:
    """Return the outages that began (True) or ended (False) after `before` and until `now`, in that order."""
    found: list[tuple[float, Outage, bool]] = []
    for period in range(int(before // PERIOD), int(now // PERIOD) + 1):
        for outage in OUTAGES:
            for at, begins in ((outage.begins, True), (outage.ends, False)):
                when = period * PERIOD + at
                if before < when <= now:
                    found.append((when, outage, begins))
    return [(outage, begins) for _, outage, begins in sorted(found, key=lambda one: one[0])]
