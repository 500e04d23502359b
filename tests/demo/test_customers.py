"""What begins in `redrive demo --dashboard`: the same in every demo, of every kind, some of it doomed."""

import asyncio
from itertools import islice, pairwise
from typing import Any

import redrive
from redrive.demo.customers import PAUSE_BEGINS, PAUSE_ENDS, Start, keep_shop, starts
from redrive.demo.outages import PERIOD

FIRST = 300


def first() -> list[Start]:
    return [*islice(starts(), FIRST)]


def test_every_demo_begins_the_same_flows() -> None:
    assert [(one.what, one.settings, str(one.call)) for one in first()] == [
        (one.what, one.settings, str(one.call)) for one in first()
    ]


def test_every_kind_of_work_begins_within_three_minutes() -> None:
    kinds = {"Checkout", "Subscription", "fulfilment", "send_mail", "import_price", "render_report"}
    assert {one.what for one in first()} == kinds
    assert {one.settings.get("queue", "default") for one in first()} == {"default", "mail", "imports", "reports"}


def test_the_keys_are_different() -> None:
    keys = [one.settings["key"] for one in first() if "key" in one.settings]
    assert len(set(keys)) == len(keys) > 100


async def _pause_and_reason(*times: float) -> list[Any]:
    async with redrive.open("memory://", worker=False) as app:
        found = []
        for before, now in pairwise(times):
            said = await keep_shop(app, before, now)
            paused = [one.name for one in await app.queues() if one.pause is not None]
            found.append((said is not None, paused))
        return found


def test_the_reports_are_paused_for_a_while_in_each_period() -> None:
    times = (0, PAUSE_BEGINS - 1, PAUSE_BEGINS, PAUSE_BEGINS + 1, PAUSE_ENDS, PAUSE_ENDS + 1)
    once = [(False, []), (True, ["reports"]), (False, ["reports"]), (True, []), (False, [])]
    assert asyncio.run(_pause_and_reason(*times)) == once
    assert asyncio.run(_pause_and_reason(*(PERIOD + time for time in times))) == once
