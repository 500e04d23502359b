# ruff: noqa: S101 - tests use assert
"""Wake-ups: listeners are called when there may be something to do."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redrive.stores.interface import Store
from redrive.stores.records import FlowStatus
from redrive.testing.store_conformance.dead_letters import fail
from redrive.testing.store_conformance.flows import letter
from redrive.testing.store_conformance.scenario import (
    NOW,
    Stores,
    acquire,
    add,
    claim,
    finish,
    pause,
    release,
    scenario,
)

PATIENCE = 10.0
QUIET = 0.03


async def wakes(listeners: list[Store], change: Callable[[], Awaitable[Any]]) -> None:
    """Check that each of these stores calls its listener after the change."""
    events = [asyncio.Event() for _ in listeners]
    ends = [store.on_wake(event.set) for store, event in zip(listeners, events, strict=True)]
    try:
        # Earlier changes may still cause wake-ups: wait until it is quiet.
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
    async def test_new_flows_and_messages_wake_all_stores(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(other)
        everywhere = [store, other]
        await wakes(everywhere, lambda: add(store, "a"))
        await claim(other, lease)
        await wakes(everywhere, lambda: store.send("a", "{}", NOW))
        await wakes(everywhere, lambda: release(other, lease, 1, "a", "waiting", wake_at=NOW + 9))

    @scenario
    async def test_released_flows_wake_all_stores(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        await add(store, "a")
        await claim(store, lease)
        await wakes([store, other], lambda: store.release_lease(lease))
        successor = await acquire(other)
        await claim(other, successor)
        await release(other, successor, 1, "a", "completed", finished_at=NOW)
        await fail(other, successor, 2, letter("b"))
        await wakes([store, other], lambda: store.close_dead_letters(["b"], "redriven", "me", "why", NOW, "{}"))

    @scenario
    async def test_all_stores_are_told_that_a_flow_has_ended(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        lease = await acquire(store)
        # Who owns flows listens for what it may claim.
        store.on_wake(lambda: None)
        for number, status in enumerate(("completed", "failed", "cancelled"), start=1):
            flow_id = f"f{number}"
            await add(store, flow_id)
            await claim(store, lease)
            told, others_told = asyncio.Event(), asyncio.Event()

            def tell(event: asyncio.Event, flow_id: str, ids: Sequence[str] | None) -> None:
                if ids is None or flow_id in ids:
                    event.set()

            ends = [
                one.on_ended(functools.partial(tell, event, flow_id))
                for one, event in ((store, told), (other, others_told))
            ]
            # They may be told once when they begin to listen.
            await pause(QUIET)
            told.clear()
            others_told.clear()
            await finish(store, lease, number, flow_id, cast("FlowStatus", status))
            async with asyncio.timeout(PATIENCE):
                await others_told.wait()
            for end in ends:
                end()
                end()

    @scenario
    async def test_a_removed_listener_is_not_called(self, stores: Stores) -> None:
        store = await stores.open()
        calls: list[str] = []
        end = store.on_wake(lambda: calls.append("one"))
        store.on_wake(lambda: calls.append("other"))
        end()
        end()
        await wakes([store], lambda: add(store, "a"))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the event loop, not a wait
        assert "one" not in calls
        assert "other" in calls
