"""The clock of a machine is set while work runs: by someone, by NTP, or because the machine slept."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.determinism import clock as clocks
from redrive.determinism.clock import STEADY_TIME, SystemClock
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


@pytest.fixture
def own_time() -> Iterator[None]:
    """What a test does to the clock is over with the test."""
    real = time.time
    yield
    STEADY_TIME._noted, STEADY_TIME._last = (real(), time.monotonic()), real()


@workflow(name="set_clocks.Nap")
class Nap(Workflow):
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"


@pytest.mark.promise("X9")
@pytest.mark.usefixtures("own_time")
@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_clock_that_is_set_stalls_no_timer_no_retry_and_no_delay(
    address: str, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "LOOK_AGAIN", 0.05)
    attempts: list[int] = []

    @action(name="set_clocks.flaky", retry=RetryPolicy(attempts=5, backoff_seconds=0.2))
    async def flaky() -> str:
        attempts.append(current_attempt().number)
        if len(attempts) < 3:
            raise ConnectionError("the service is away")
        return "paid"

    async def story() -> None:
        # So that the flows that wait are in the store alone.
        async with redrive.open(address, flows=1) as app:
            retried, nap = await app.start(flaky()), await app.start(Nap.call(0.5))
            delayed = await app.start(Nap.call(0.0), delay=0.5)
            async with asyncio.timeout(10):
                while not attempts:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            real = time.time
            monkeypatch.setattr(time, "time", lambda: real() + ahead)
            later = await app.start(Nap.call(0.2), delay=0.2)
            assert await retried.result(timeout=20) == "paid"
            assert [await one.result(timeout=20) for one in (nap, delayed, later)] == ["awake"] * 3
            assert attempts == [1, 2, 3]
            times = [line.at for line in await app.log(retried.id)]
            assert times == sorted(times)

    asyncio.run(story())


AHEAD = """
import asyncio, sys, time
real, ahead = time.time, 3600.0
time.time = lambda: real() + ahead
import redrive

async def main():
    global ahead
    async with redrive.open(sys.argv[1]) as app:
        while app._worker is None or not app._worker.caught_up:
            await asyncio.sleep(0.001)
        ahead = 0.0
        print("joined", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@pytest.mark.promise("X9")
@pytest.mark.usefixtures("own_time")
@pytest.mark.parametrize("is_gone", [False, True], ids=["they work", "they are gone"])
def test_who_opens_a_file_after_the_clock_was_set_back_goes_on_from_the_time_of_its_workers(
    tmp_path: Path, is_gone: bool
) -> None:
    """Else flows with a delay would begin too early, or wait for an hour longer."""
    address = f"sqlite:///{tmp_path}/app.db"
    command = [sys.executable, "-c", AHEAD, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:  # noqa: S603 - our own script
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == "joined"
        if is_gone:
            worker.kill()
            worker.wait()

        async def now() -> float:
            async with redrive.open(address, worker=False) as app:
                return app.now() - time.time()

        assert asyncio.run(now()) == pytest.approx(HOUR, abs=60)
        worker.kill()
