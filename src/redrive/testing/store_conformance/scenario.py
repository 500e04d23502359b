# ruff: noqa: S101 - tests use assert
"""What the suite's tests share: opened stores, leases, and flows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.stores.interface import Store
from redrive.stores.leases import Lease, NewWorker
from redrive.stores.records import Batch, EventRow, FlowChange, FlowRecord, FlowStatus, NewFlow

MakeStore = Callable[[], Awaitable[Store]]
"""Opens another store on the same data."""

LONG = 60.0
"""The ttl of a lease that does not expire during a test."""
SHORT = 0.05
"""The ttl of a lease that expires during a test."""
NOW = 1_700_000_000.0
"""The time that flows are given; only leases use the real clock."""
WORK = "workflow:Work"

Suite = TypeVar("Suite")


def run_test(make_store: MakeStore, play: Callable[["Stores"], Awaitable[None]]) -> None:
    """Run a test and close the stores that it opened."""

    async def with_stores() -> None:
        async with AsyncExitStack() as opened:
            await play(Stores(make_store, opened))

    asyncio.run(with_stores())


def scenario(play: Callable[[Suite, "Stores"], Awaitable[None]]) -> Callable[[Suite, MakeStore], None]:
    """Turn `async def test_it(self, stores)` into a test that pytest can run."""

    def test(self: Suite, make_store: MakeStore) -> None:
        run_test(make_store, lambda stores: play(self, stores))

    # Not functools.wraps: pytest would see the wrapped signature and ask for a fixture `stores`.
    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


class Stores:
    """The stores that a test opens; each stands for a process."""

    def __init__(self, make_store: MakeStore, opened: AsyncExitStack) -> None:
        self._make_store = make_store
        self._opened = opened
        self._closed: list[Store] = []

    async def open(self) -> Store:
        store = await self._make_store()
        self._opened.push_async_callback(self.close, store)
        return store

    async def close(self, store: Store) -> None:
        if not any(store is closed for closed in self._closed):
            self._closed.append(store)
            await store.close()


async def pause(seconds: float) -> None:
    """Let real time pass."""
    await SYSTEM_CLOCK.asleep_until(SYSTEM_CLOCK.monotonic() + seconds)


async def until(met: Callable[[], Awaitable[Any]], within: float = 10.0) -> Any:
    """Poll until the answer is true, and return it."""
    end = SYSTEM_CLOCK.monotonic() + within
    while not (answer := await met()):
        assert SYSTEM_CLOCK.monotonic() < end, "the condition was not met in time"
        await pause(0.01)
    return answer


async def acquire(store: Store, ttl: float = LONG, name: str = "host:1") -> Lease:
    return await store.acquire_lease(NewWorker(name=name, definitions=(WORK,)), ttl)


async def expired(store: Store, lease: Lease) -> None:
    """Wait until the lease, acquired for SHORT, has expired."""

    async def has_expired() -> bool:
        return not any(one.epoch == lease.epoch and one.alive for one in await workers())

    workers = store.list_workers
    await until(has_expired)
    await pause(0.01)


def new_flow(id: str, **fields: Any) -> NewFlow:  # noqa: A002 - named as the field is
    start_at = fields.pop("start_at", fields.get("created_at", NOW))
    return NewFlow(**{"id": id, "definition": WORK, "input": "{}", "created_at": NOW, "start_at": start_at, **fields})


async def add(store: Store, *flows: NewFlow | str) -> None:
    """Add flows, all of them new."""
    wanted = [new_flow(flow) if isinstance(flow, str) else flow for flow in flows]
    assert await store.add_flows(wanted) == [None] * len(wanted)


async def claim(
    store: Store,
    lease: Lease,
    limit: int = 100,
    now: float = NOW,
    definitions: Sequence[str] = (WORK,),
    queues: Sequence[str] | None = None,
) -> list[str]:
    """Claim flows and return their ids."""
    return [flow.id for flow in (await store.claim(lease, definitions, queues, limit, now)).flows]


async def found(store: Store, flow_id: str) -> FlowRecord:
    flow = await store.find_flow(flow_id)
    assert flow is not None
    return flow


async def status_of(store: Store, flow_id: str) -> FlowStatus:
    return (await found(store, flow_id)).status


async def release(store: Store, lease: Lease, number: int, flow_id: str, status: FlowStatus, **fields: Any) -> None:
    """Commit batch `number`, which releases the flow with this status."""
    change = FlowChange(flow_id=flow_id, status=status, **fields)
    await store.commit(lease, Batch(number=number, flows=[change]))


async def finish(store: Store, lease: Lease, number: int, flow_id: str, status: FlowStatus, at: float = NOW) -> None:
    await release(store, lease, number, flow_id, status, finished_at=at)


def event(flow_id: str, seq: int, body: str = "{}", at: float = NOW) -> EventRow:
    return EventRow(flow_id, seq, at, body)
