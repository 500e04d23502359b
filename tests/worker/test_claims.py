"""How often a worker asks for flows."""

import asyncio
import gc
from typing import Any

import psycopg
import pytest
from tests.postgres_server import shared_server

import redrive
from redrive import RetryPolicy, action
from redrive.stores.claimed import Claimed
from redrive.testing import flow_app
from redrive.worker.timer_queue import Timer


@action(name="claims.quick")
async def quick() -> int:
    return 1


def test_a_worker_asks_no_more_often_while_others_hold_all_that_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    address = shared_server().fresh_database()
    claims: list[Claimed] = []

    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            handles = [await app.start(quick()) for _ in range(3)]
        with psycopg.connect(address) as operator:
            operator.execute("UPDATE redrive.flows SET priority = 5")
            async with redrive.open(address, worker=False, flows=2, poll=3600) as app:
                claim = app.store.claim

                async def counted(*args: Any) -> Claimed:
                    claims.append(await claim(*args))
                    return claims[-1]

                monkeypatch.setattr(app.store, "claim", counted)
                working = asyncio.create_task(app.work())
                while not claims or app._worker is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
                for _ in range(100):
                    await app.find(handles[0].id)
                assert not any(claimed.flows for claimed in claims)
                # When it began, and when it was woken.
                assert len(claims) < 10
                operator.rollback()
                app._worker.claimer.wake()
                assert [await app.handle(one.id).result(timeout=10) for one in handles] == [1, 1, 1]
                app.stop()
                await working

    asyncio.run(scenario())


def test_flows_that_wake_while_another_waits_for_long_leave_nothing_in_memory() -> None:
    async def scenario() -> None:
        async with flow_app() as app:
            await app.start(quick(), delay="30d")
            for _ in range(100):
                handle = await app.start(quick(), delay="10s")
                assert await handle.result() == 1
            alarms = [one for one in gc.get_objects() if type(one) is Timer and one.callback is not None]
            assert len(alarms) < 10

    asyncio.run(scenario())


def test_what_is_registered_while_a_worker_runs_has_someone_who_takes_it(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, poll=0.05) as app:
            assert await (await app.start(quick())).result(timeout=10) == 1

            @action(name=f"claims.later.{address.partition(':')[0]}")
            async def later() -> int:
                raise ConnectionError("not yet")

            handle = await app.start(later(), retry=RetryPolicy(attempts=2, backoff_seconds=3600))
            headline = ""
            async with asyncio.timeout(10):
                # Until the worker has asked for flows once more.
                while "waiting for attempt 2" not in headline or "no live worker" in headline:
                    await asyncio.sleep(0.01)
                    headline = (await app.explain(handle.id)).headline

    asyncio.run(scenario())
