"""The customers of `redrive demo --dashboard`: which flow begins next, and what an operator does meanwhile."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from redrive.client.app import App
from redrive.demo.outages import PERIOD
from redrive.demo.shop_flows import (
    Checkout,
    Subscription,
    fulfilment,
    import_price,
    render_report,
    send_mail,
)
from redrive.determinism.dice import seeded_random

COUNTRIES = ("DE", "FR", "JP", "PT", "US")
MAILS_AT_ONCE = 3
# Seconds in each period during which somebody has paused the reports.
PAUSE_BEGINS, PAUSE_ENDS = 90.0, 240.0


class Start(msgspec.Struct, frozen=True):
    """A flow to begin."""

    what: str
    call: Callable[[], Any]
    """Returns what `app.start` takes."""
    settings: dict[str, Any] = {}


def starts() -> Iterator[Start]:
    """Yield what begins next, for ever, and the same in every demo."""
    random = seeded_random("redrive demo customers")
    for number in itertools.count(1):
        order, country, cents = f"order-{number}", random.choice(COUNTRIES), random.randrange(900, 60_000)
        if number % 31 == 0:
            # No carrier delivers there: a dead letter that a redrive does not help.
            country = "AQ"
        if number % 47 == 0:
            cents = 95_000
        yield Start("Checkout", partial(Checkout.call, order, cents=cents, country=country), {"key": order})
        if number % 2 == 0:
            mail = partial(send_mail, f"reader-{number}@shop.example", "What is new in November")
            yield Start("send_mail", mail, {"queue": "mail"})
        if number % 5 == 0:
            fulfil = partial(fulfilment.call, {"order": order, "country": country})
            yield Start("fulfilment", fulfil, {"key": f"fulfil-{order}"})
        if number % 9 == 0:
            customer = f"customer-{number}"
            yield Start("Subscription", partial(Subscription.call, customer, cents=990), {"key": customer})
        if number % 12 == 0:
            row = {"sku": number} if number % 24 == 0 else {"sku": number, "price": 12}
            yield Start("import_price", partial(import_price, row), {"queue": "imports", "priority": -1})
        if number % 40 == 0:
            yield Start("render_report", partial(render_report, f"day {number // 40}"), {"queue": "reports"})


async def keep_shop(app: App, before: float, now: float) -> str | None:
    """Do what the operators of the shop do between two times of the demo; return it in words, if anything."""
    if _passed(PAUSE_BEGINS, before, now):
        await app.pause_queue("reports", by="nina", why="the warehouse counts its stock")
        return "nina pauses the queue reports: the warehouse counts its stock"
    if _passed(PAUSE_ENDS, before, now):
        await app.resume_queue("reports")
        return "nina resumes the queue reports"
    return None


def _passed(at: float, before: float, now: float) -> bool:
    """Whether a time of the period lies after `before`, and not after `now`."""
    return (before - at) // PERIOD < (now - at) // PERIOD and now >= at
