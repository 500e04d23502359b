# ruff: noqa: S101 - assert is how a test speaks
"""Wake-ups: whoever listens hears that there may be something to do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.stores.interface import Store
from redrive.testing.store_conformance.dead_letters import fail
from redrive.testing.store_conformance.flows import letter
from redrive.testing.store_conformance.scenario import NOW, Stores, add, claim, join, pause, release, scenario

PATIENCE = 10.0
QUIET = 0.03


async def heard(listeners: list[Store], change: Callable[[], Awaitable[Any]]) -> None:
    """Each of these stores tells of the change."""
    events = [asyncio.Event() for _ in listeners]
    ends = [store.on_wake(event.set) for store, event in zip(listeners, events, strict=True)]
    try:
        # A store may have something older left to tell: wait until it has.
        await pause(QUIET)
        while any(event.is_set() for event in events):
            for event in events:
                event.clear()
            await pause(QUIET)
        await change()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(event.wait() for event in events))
    finally:
        for end in ends:
            end()


class WakeConformance:
    @scenario
    async def test_new_flows_and_mail_are_heard_of_everywhere(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await join(other)
        everywhere = [store, other]
        await heard(everywhere, lambda: add(store, "a"))
        await claim(other, lease)
        await heard(everywhere, lambda: store.send("a", "{}", NOW))
        await heard(everywhere, lambda: release(other, lease, 1, "a", "waiting", wake_at=NOW + 9))

    @scenario
    async def test_flows_that_are_handed_on_are_heard_of_everywhere(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await join(store)
        await add(store, "a")
        await claim(store, lease)
        await heard([store, other], lambda: store.release_lease(lease))
        successor = await join(other)
        await claim(other, successor)
        await release(other, successor, 1, "a", "completed", finished_at=NOW)
        await fail(other, successor, 2, letter("b"))
        await heard([store, other], lambda: store.close_dead_letters(["b"], "redriven", "me", "why", NOW, "{}"))

    @scenario
    async def test_who_no_longer_listens_is_not_called(self, stores: Stores) -> None:
        store = await stores.open()
        calls: list[str] = []
        end = store.on_wake(lambda: calls.append("one"))
        store.on_wake(lambda: calls.append("other"))
        end()
        end()
        await heard([store], lambda: add(store, "a"))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the event loop, not a wait
        assert "one" not in calls
        assert "other" in calls
