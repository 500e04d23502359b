"""Heartbeats are those of the attempt under way, whoever else still beats."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, action, current_attempt
from redrive.flows import chunks, replay
from redrive.runners.attempt import Attempt
from redrive.testing import flow_app
from redrive.worker import heartbeats

PATIENCE = 30.0


def test_a_thread_that_was_left_behind_does_not_beat_for_the_attempt_after_it() -> None:
    second_beat, old_beat = threading.Event(), threading.Event()
    seen: list[tuple[int, Any]] = []

    @action(name="heartbeats.crawl", timeout=60, retry=RetryPolicy(attempts=3))
    def crawl() -> None:
        attempt = current_attempt()
        seen.append((attempt.number, attempt.last_details))
        if attempt.number == 1:
            second_beat.wait(PATIENCE)
            attempt.heartbeat("old")
            old_beat.set()
        elif attempt.number == 2:
            attempt.heartbeat("further")
            second_beat.set()
            old_beat.wait(PATIENCE)
            raise ConnectionError("away")

    async def scenario() -> None:
        async with flow_app(threads=3) as app:
            outcome = await app.outcome(await app.start(crawl()))
            assert outcome.status == "completed"

    asyncio.run(scenario())
    assert seen == [(1, None), (2, None), (3, "further")]


def test_a_thread_that_outlives_the_loop_beats_in_vain_and_goes_on() -> None:
    running, closed, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @action(name="heartbeats.outlive")
    def outlive() -> None:
        attempt = current_attempt()
        running.set()
        closed.wait(PATIENCE)
        try:
            attempt.heartbeat("late")
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0) as app:
            await app.start(outlive())
            await asyncio.to_thread(running.wait, PATIENCE)

    asyncio.run(scenario())
    closed.set()
    assert ended.wait(PATIENCE)
    assert raised == []


def test_an_item_that_is_done_has_no_heartbeats_any_more() -> None:
    first: list[Attempt] = []

    @action(name="heartbeats.leave")
    async def leave() -> None:
        first.append(current_attempt())

    @action(name="heartbeats.beat_for_another")
    async def beat_for_another() -> None:
        first[0].heartbeat("ghost")
        current_attempt().heartbeat("mine")

    @redrive.workflow(name="heartbeats.Two")
    class Two(redrive.Workflow):
        async def run(self) -> None:
            await leave()
            await beat_for_another()
            await asyncio.Event().wait()

    async def scenario() -> None:
        async with flow_app() as app:
            handle = await app.start(Two.call())
            await app.until(lambda: len(app.witness.executed) == 2)
            await app.settled(handle)
            assert await app.store.read_heartbeats([handle.id]) == []

    asyncio.run(scenario())


def test_an_item_has_one_chain_of_writes_however_often_it_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "WRITTEN_EVERY", 0.1)
    chains: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        @action(name="heartbeats.often", retry=RetryPolicy(attempts=5))
        async def often() -> None:
            attempt = current_attempt()
            attempt.heartbeat("begun")
            if attempt.number < 5:
                raise ConnectionError("away")
            for page in range(3):
                attempt.heartbeat(page)
                while (await app.store.read_heartbeats([attempt.flow_id]))[0].details != str(page):  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.001)
            timers = loop._scheduled  # type: ignore[attr-defined]
            chains.append(sum(timer._callback is heartbeats._write for timer in timers))

        async with flow_app() as app:
            await app.outcome(await app.start(often()))

    asyncio.run(scenario())
    assert chains == [1]


def test_what_an_attempt_left_is_kept_though_its_workers_clock_is_behind_the_flows_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    @action(name="heartbeats.load", retry=RetryPolicy(attempts=2))
    async def load() -> None:
        attempt = current_attempt()
        seen.append(attempt.last_details)
        if attempt.number == 1:
            attempt.heartbeat("half")
            await asyncio.Event().wait()

    async def scenario() -> None:
        async with flow_app() as app:
            await app.kill()
            handle = await app.start(load())
            ahead = app.clock.wall
            monkeypatch.setattr(app.clock, "wall", lambda: ahead() - 10)
            app.revive()
            await app.until(lambda: len(seen) == 1 and app._worker is not None and app._worker.journal.is_drained)
            await app.kill()
            app.revive()
            await app.outcome(handle)

    asyncio.run(scenario())
    assert seen == [None, "half"]


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
def test_what_an_attempt_left_last_is_kept_though_its_flow_is_built_anew(
    monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """Where a step beside it is tried again; what was left within the last second is not in the store yet."""
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 1)
    monkeypatch.setattr(replay, "LINES_PER_CHUNK", 1)
    begun, paid, left, seen = 0, 0, 0, list[Any]()

    @action(name="heartbeats.pages", retry=RetryPolicy(attempts=2))
    async def pages() -> None:
        nonlocal left
        attempt = current_attempt()
        seen.append(attempt.last_details)
        if attempt.number == 1:
            while left < 2 or (meanwhile and begun == 1):
                left += 1
                attempt.heartbeat(left)
                await asyncio.sleep(0)
            while paid < 2:  # noqa: ASYNC110 - in turns of the loop
                await asyncio.sleep(0)
            raise ConnectionError("away")

    @action(name="heartbeats.pay")
    async def pay() -> None:
        nonlocal paid
        while left < 2:  # noqa: ASYNC110 - in turns of the loop
            await asyncio.sleep(0)
        paid += 1
        if paid == 1:
            raise redrive.Permanent("said no")

    @redrive.workflow(name="heartbeats.Beside")
    class Beside(redrive.Workflow):
        async def run(self) -> None:
            nonlocal begun
            begun += 1
            beside = asyncio.create_task(pages())
            with contextlib.suppress(redrive.Permanent):
                await pay()
            await beside

    async def scenario() -> None:
        async with flow_app() as app:
            handle = await app.start(Beside.call())
            while all(step.state != "failed" for step in await app.steps_of(handle.id)):  # noqa: ASYNC110 - it is in a store
                await asyncio.sleep(0)
            await app.reset_step(handle.id, "heartbeats.pay", by="ann", why="mended")
            assert (await app.outcome(handle)).status == "completed"

    asyncio.run(scenario())
    assert seen == [None, left]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_flow_that_is_cancelled_by_force_after_its_worker_died_leaves_no_heartbeat(
    store: str, tmp_path: Path
) -> None:
    @action(name="heartbeats.beat_and_hang")
    async def beat_and_hang() -> None:
        current_attempt().heartbeat("here")
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with flow_app("memory://" if store == "memory" else f"sqlite:///{tmp_path}/a.db") as app:
            flow = await app.start(beat_and_hang())
            await app.until(lambda: app.witness.executed)
            while not await app.store.read_heartbeats([flow.id]):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            await app.kill()
            await flow.cancel(force=True)
            app.revive()
            assert (await app.outcome(flow)).status == "cancelled"
            assert await app.store.read_heartbeats([flow.id]) == []

    asyncio.run(scenario())
