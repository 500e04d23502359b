"""Code that holds its worker's event loop, or freezes its process, for longer than the lease lasts."""

import asyncio
import logging
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worker.fleet import Fleet, check_notes
from tests.worker.shop import Blocking, Small, block, freeze, nap, nap_in_thread

import redrive
from redrive import Workflow, action, workflow
from redrive.client.app import App
from redrive.errors import AttemptLostError, CrashLoopError
from redrive.flows.events import AttemptFailed
from redrive.worker.maintenance import loop_watchdog

pytestmark = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)

LEASE = 1.0


async def until(condition: Callable[[], object], patience: float = 30.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def lost_attempts(app: App, flow_id: str) -> list[AttemptFailed]:
    lines = await app.read_lines(flow_id)
    return [line.event for line in lines if isinstance(line.event, AttemptFailed) and line.event.failure.kind == "lost"]


@pytest.mark.promise("X1", "X3")
@pytest.mark.parametrize("culprit", ["blocks", "freezes"])
def test_what_another_worker_has_done_meanwhile_is_not_called_again(address: str, tmp_path: Path, culprit: str) -> None:
    """All of them are about to be called when the first one holds the loop, or stops the process."""

    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            first = await app.start(block(3.5 * LEASE, 1) if culprit == "blocks" else freeze(), priority=1)
            others = [await app.start(nap(0.01)) for _ in range(10)]
            others += [await app.start(nap_in_thread(0.01)) for _ in range(10)]
            (held,) = fleet.start()
            await until(fleet.notes)
            fleet.start()
            for handle in others:
                # Either the held worker had called it, and it was lost; or it never did.
                assert await handle.result(timeout=30) <= 2
            assert await first.result(timeout=30) == 2
            held.send_signal(signal.SIGCONT)
            await until(lambda: "drops its flows and starts again" in fleet.log_of(0))
            # It works on.
            assert await (await app.start(nap(0.01))).result(timeout=30) == 1
            assert await app.dead_letters() == []
            assert [event.failure.blamed for event in await lost_attempts(app, first.id)] == [culprit == "blocks"]
            for handle in others:
                assert not any(event.failure.blamed for event in await lost_attempts(app, handle.id))

    with Fleet(address, tmp_path, lease=LEASE) as fleet:
        asyncio.run(scenario(fleet))
        check_notes(fleet.notes())


@pytest.mark.promise("X2", "X8")
@pytest.mark.parametrize("after_step", [False, True], ids=["at once", "after a step"])
def test_a_flow_that_holds_the_only_worker_is_a_dead_letter_after_three_times_and_the_others_go_on(
    address: str, tmp_path: Path, after_step: bool
) -> None:
    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            holder = await app.start(Blocking.call(2 * LEASE, after_step))
            others = [await app.start(Small.call(number)) for number in range(20)]
            fleet.start()
            for number, handle in enumerate(others):
                assert await handle.result(timeout=60) == number + 1
            with pytest.raises(
                CrashLoopError, match=r"a whole lease 3 times, most recently by flow .* at shop.py:\d+ \(Blocking"
            ):
                await holder.result(timeout=60)
            (letter,) = await app.dead_letters()
            assert (letter.flow_id, letter.kind) == (holder.id, "poison")
            # It is known no more once somebody has mended it.
            assert (await app.find(holder.id)).blame is None
        said = fleet.log_of(0)
        # More often on a machine that is busy itself, which is not held against the flow.
        assert 3 <= said.count("drops its flows and starts again") <= 6
        assert f"by flow {holder.id} at shop.py:" in said

    with Fleet(address, tmp_path, lease=LEASE) as fleet:
        asyncio.run(scenario(fleet))
        check_notes(fleet.notes())


@action(name="held_loop.hold")
async def hold(seconds: float) -> str:
    time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for
    return "held"


@workflow(name="held_loop.Held")
class Held(Workflow):
    async def run(self, seconds: float) -> str:
        try:
            return await hold(seconds)
        except AttemptLostError as error:
            return f"gave up: {error}"


@pytest.mark.promise("X2", "X8")
def test_an_action_that_holds_the_loop_fails_after_three_times_and_its_flow_is_told_where(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with redrive.open(address, lease=0.5) as app:
            handle = await app.start(Held.call(1.2))
            told = await handle.result(timeout=60)
            assert "it blocked its worker's event loop for a whole lease (by flow" in told
            assert "step held_loop.hold at test_held_loop.py:" in told
            assert [event.failure.blamed for event in await lost_attempts(app, handle.id)] == [True] * 3

    asyncio.run(scenario())
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("the event loop has been blocked" in line and "step held_loop.hold" in line for line in warned)


@pytest.mark.promise("X8")
def test_code_that_holds_the_loop_for_less_than_a_lease_is_named_and_keeps_its_lease(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watchdog, "TOO_LONG", 0.3)

    async def scenario() -> None:
        async with redrive.open(address, lease=3.0) as app:
            handle = await app.start(Held.call(2.0))
            assert await handle.result(timeout=60) == "held"
            assert await lost_attempts(app, handle.id) == []

    asyncio.run(scenario())
    blocked = "step held_loop.hold attempt 1: the event loop has been blocked for [0-9.]+ s at test_held_loop.py:"
    assert re.search(blocked, caplog.text)


@action(name="held_loop.quick")
async def quick() -> str:
    return "done"


@workflow(name="held_loop.HoldsItself")
class HoldsItself(Workflow):
    async def run(self, free: str) -> str:
        told = await quick()
        if not os.path.exists(free):  # noqa: ASYNC240 - that is what it is for
            os.mkdir(free)
            time.sleep(1.5)  # noqa: ASYNC251 - as above
        return told


@pytest.mark.promise("X8")
def test_a_flow_that_holds_the_loop_itself_is_told_of_not_the_action_before_it(address: str, tmp_path: Path) -> None:
    """The action was done, but its result was not recorded yet."""

    async def scenario() -> None:
        async with redrive.open(address, lease=0.5) as app:
            handle = await app.start(HoldsItself.call(str(tmp_path / "free")))
            assert await handle.result(timeout=60) == "done"
            [lost] = await lost_attempts(app, handle.id)
            assert not lost.failure.blamed
            assert lost.failure.reason.startswith("not the attempt's fault: the flow's own code blocked its worker")
            assert "(at test_held_loop.py:" in lost.failure.reason
            assert "is gone" not in lost.failure.reason + lost.failure.message

    asyncio.run(scenario())
