"""The clock of a machine is set while work runs: by someone, by NTP, or because the machine slept."""

import asyncio
import time

import pytest

import redrive
from redrive import action, current_attempt
from redrive.determinism.clock import SystemClock
from redrive.flows.events import AttemptFailed

HOUR = 3600.0


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_worker_keeps_its_lease_and_its_attempts(address: str, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    async def story() -> list[object]:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @action(name="set_clocks.charge")
        async def charge() -> str:
            attempts.append(current_attempt().number)
            begun.set()
            await may_end.wait()
            return "paid"

        async with redrive.open(address) as app:
            handle = await app.start(charge())
            async with asyncio.timeout(10):
                await begun.wait()
            monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: time.time() + ahead))
            assert await app.store.reap_leases() == []
            assert [worker.alive for worker in await app.store.list_workers()] == [True]
            may_end.set()
            assert await handle.result(timeout=10) == "paid"
            return [line.event for line in await app.log(handle.id) if isinstance(line.event, AttemptFailed)]

    assert asyncio.run(story()) == []
    assert attempts == [1]
