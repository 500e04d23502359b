"""Exactly one flow for each tick, while workers are killed and commits have unknown outcomes."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from tests.postgres_server import shared_server

import redrive
from redrive.assembly import store_at
from redrive.client.app import App
from redrive.errors import CommitUnknownError, StoreUnavailableError
from redrive.flows.schedules.schedule import tick_of_key
from redrive.stores.interface import Store
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import FlowQuery
from redrive.stores.schedules import ScheduleRow
from redrive.worker.settings import WorkerSettings
from redrive.worker.worker import Worker

WORKERS = 8
SETTINGS = WorkerSettings(poll=0.02, grace=0.0)


@redrive.action(name="fleets.tidy")
async def tidy() -> None:
    pass


class LossyStore:
    """A store whose writes of schedules fail at random, before or after they were made."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    async def write_schedule(self, row: ScheduleRow, *others: Any) -> Any:
        fate = self._chance.random()
        if fate < 0.2:
            raise StoreUnavailableError("lost on the way")
        answer = await self._store.write_schedule(row, *others)
        if fate < 0.4:
            raise CommitUnknownError("lost on the way back")
        return answer


async def check_ticks(app: App, every: float, least: int) -> None:
    """Each tick from the first to the last has one flow, and the schedule knows of as many."""
    await app.pause_schedule("often", by="test", why="seen enough")
    view = await app.find_schedule("often")
    found = [one.tick for flow in await app.flows(FlowQuery(limit=1000)) if (one := tick_of_key(flow.key))]
    assert not [tick for tick, count in Counter(found).items() if count > 1]
    assert len(found) == view.started >= least
    assert (view.missed, view.overlapped) == (0, 0)
    seconds = sorted(time.mktime(time.strptime(tick[:19], "%Y-%m-%dT%H:%M:%S")) for tick in found)
    assert {later - tick for tick, later in pairwise(seconds)} == {every}, "no tick is missing"


@pytest.mark.promise("E6")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_eight_workers_that_are_killed_start_one_flow_a_tick(kind: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    data = MemoryData()

    def open_store() -> Store:
        return MemoryStore(data) if kind == "memory" else store_at(f"sqlite:///{tmp_path}/fleet.db")

    async def life() -> None:
        """One worker after the other, each killed after a while."""
        while True:
            store = open_store()
            await store.open()
            working = asyncio.create_task(Worker(cast("Store", LossyStore(store, chance)), SETTINGS).run())
            try:
                await asyncio.wait([working], timeout=chance.uniform(0.05, 0.6))
            finally:
                working.cancel()
                await asyncio.wait([working])
                await store.close()

    async def story() -> None:
        async with App(open_store(), worker=False) as app:
            await app.schedule("often", tidy, every="1s", overlap="allow")
            lives = [asyncio.create_task(life()) for _ in range(WORKERS)]
            try:
                async with asyncio.timeout(60):
                    while (await app.find_schedule("often")).started < 5:  # noqa: ASYNC110 - it is in a store
                        await asyncio.sleep(0.05)
            finally:
                for one in lives:
                    one.cancel()
                await asyncio.wait(lives)
            await check_ticks(app, 1.0, 5)

    asyncio.run(story())


@pytest.mark.promise("E6")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_are_killed_with_kill_9_start_one_flow_a_tick(kind: str, tmp_path: Path) -> None:
    address = shared_server().fresh_database() if kind == "postgres" else f"sqlite:///{tmp_path}/fleet.db"
    chance = random.Random(3)

    def begin() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own worker
            [sys.executable, "-m", "tests.worker.worker_process", address, "lease=2", "poll=0.05"],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "SHOP_NOTES": str(tmp_path / "notes")},
        )

    async def story() -> None:
        async with App(store_at(address), worker=False) as app:
            workers = [begin() for _ in range(2)]
            try:
                await app.schedule("often", tidy, every="1s", overlap="allow")
                end = time.monotonic() + 90
                while (await app.find_schedule("often")).started < 6:
                    assert time.monotonic() < end
                    await asyncio.sleep(chance.uniform(0.5, 1.5))
                    if chance.random() < 0.5:
                        workers.append(begin())
                        workers[0].send_signal(signal.SIGKILL)
                        workers.pop(0).wait()
            finally:
                for worker in workers:
                    worker.kill()
                    worker.wait()
            await check_ticks(app, 1.0, 6)

    asyncio.run(story())
