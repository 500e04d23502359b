"""Workers that are killed, frozen and stopped: nothing is lost, nothing is done twice."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgres_server import shared_server
from tests.worker.fleet import Fleet, check_notes
from tests.worker.shop import Later, Long, Order, Small, expected

from redrive.assembly import open as open_app
from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemCompleted, ItemStarted
from redrive.stores.records import FlowQuery

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    before = os.environ.get("SHOP_NOTES")
    yield
    if before is None:
        os.environ.pop("SHOP_NOTES", None)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return shared_server().fresh_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/shop.db"


async def until(condition: Callable[[], object], patience: float = 30.0) -> None:
    """Wait for what other processes do."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def all_done(app: App, patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while open_flows := await app.flows(FlowQuery(status=("ready", "waiting", "running", "paused", "parked"), limit=5)):
        assert time.monotonic() < end, f"stuck: {open_flows}"
        await asyncio.sleep(0.05)


async def check_logs(app: App, ids: list[str], fleet: Fleet) -> None:
    """What the logs say is what was done: each recorded success once, by the attempt that it names."""
    ended = {(note.flow, note.item, note.attempt) for note in fleet.notes() if note.word == "end"}
    for flow_id in ids:
        begun: dict[int, int] = {}
        for line in await app.read_lines(flow_id):
            event = line.event
            if isinstance(event, ItemStarted):
                begun[event.item] = 1
            elif isinstance(event, AttemptStarted):
                assert event.attempt == begun.get(event.item, 0) + 1, "the attempt number goes on"
                begun[event.item] = event.attempt
            elif isinstance(event, ItemCompleted):
                assert (flow_id, event.item, event.attempt) in ended
                later = [one for one in ended if one[:2] == (flow_id, event.item) and one[2] > event.attempt]
                assert not later, "recorded work ran again"


@pytest.mark.promise("A14", "R9", "R8")
def test_orders_survive_workers_that_are_killed_at_random(address: str, tmp_path: Path) -> None:
    chance = random.Random(7)

    async def scenario() -> None:
        with Fleet(address, tmp_path, lease=2.0) as fleet:
            async with open_app(address, worker=False) as app:
                handles: list[Handle[list[str]]] = []
                for _ in range(2):
                    # An item that loses its worker three times is taken for poison: two kills, then time to finish.
                    handles += [
                        await app.start(Order.call(number)) for number in range(len(handles), len(handles) + 20)
                    ]
                    for _ in range(2):
                        worker = fleet.start()[0]
                        await asyncio.sleep(chance.uniform(0.02, 0.3))
                        fleet.kill(worker)
                    fleet.start()
                    await all_done(app)
                    fleet.kill(fleet.workers[0])
                for number, handle in enumerate(handles):
                    assert await handle.result() == expected(number)
                await check_logs(app, [handle.id for handle in handles], fleet)
            check_notes(fleet.notes())

    asyncio.run(scenario())


@pytest.mark.promise("R7", "R8", "A12")
def test_many_flows_on_several_workers_while_some_are_killed(tmp_path: Path) -> None:
    address = shared_server().fresh_database()
    flows = int(os.environ.get("REDRIVE_CRASH_FLOWS", "400"))
    chance = random.Random(11)

    async def scenario() -> None:
        with Fleet(address, tmp_path, lease=4.0) as fleet:
            async with open_app(address, worker=False) as app:
                handles = await asyncio.gather(*(app.start(Small.call(number)) for number in range(flows)))
                fleet.start(4)
                # No more than two: an item that loses its worker three times is taken for poison.
                for _ in range(2):
                    await asyncio.sleep(chance.uniform(0.2, 0.8))
                    fleet.kill(chance.choice(fleet.workers))
                    fleet.start()
                await all_done(app, 120)
                for number, handle in enumerate(handles):
                    assert await handle.result() == number + 1
            check_notes(fleet.notes())

    asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_a_killed_workers_flows_are_taken_over_and_the_attempt_number_goes_on(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = 2.0

    async def scenario() -> None:
        with Fleet(address, tmp_path, lease=lease) as fleet:
            async with open_app(address, worker=False) as app:
                first = fleet.start()[0]
                handle = await app.start(Long.call(60.0))
                await until(fleet.notes)
                if address.startswith("postgres"):
                    fleet.start()
                fleet.kill(first)
                killed_at = time.monotonic()
                if address.startswith("sqlite"):
                    # Its death can be seen, so that nobody has to wait for the lease to run out.
                    fleet.start()
                await until(lambda: len(fleet.notes()) >= 2)
                took = time.monotonic() - killed_at
                with capsys.disabled():
                    store = address.partition(":")[0]
                    print(f"\n{store}: taken over {took:.2f} s after SIGKILL, lease {lease} s")  # noqa: T201 - a figure
                assert [note.attempt for note in fleet.notes()] == [1, 2]
                lost = [line.event for line in await app.read_lines(handle.id) if isinstance(line.event, AttemptFailed)]
                assert [(event.attempt, event.failure.kind) for event in lost] == [(1, "lost")]
                await handle.cancel(by="test", why="seen enough")
                await all_done(app)
                assert await handle.status() == "cancelled"

    asyncio.run(scenario())


@pytest.mark.promise("A14", "A9")
def test_waiting_retries_fire_at_their_stored_times_after_kill_9(address: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Fleet(address, tmp_path, lease=2.0) as fleet:
            async with open_app(address, worker=False) as app:
                worker = fleet.start()[0]
                handle = await app.start(Later.call(2.0))
                await until(fleet.notes)
                waiting = await app.retries()
                while not waiting:
                    await asyncio.sleep(0.01)
                    waiting = await app.retries()
                fleet.kill(worker)
                fleet.start()
                assert await handle.result(timeout=20) == 5
                log = await app.read_lines(handle.id)
                started = next(line.at for line in log if isinstance(line.event, AttemptStarted))
                assert started >= waiting[0].scheduled_at
                assert [type(line.event).__name__ for line in log] == [
                    "ItemStarted",
                    "AttemptFailed",
                    "AttemptStarted",
                    "ItemCompleted",
                    "FlowCompleted",
                ]
            check_notes(fleet.notes())

    asyncio.run(scenario())


@pytest.mark.promise("R8")
def test_a_worker_that_was_frozen_past_its_lease_cannot_write_and_says_so(address: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Fleet(address, tmp_path, lease=2.0) as fleet:
            async with open_app(address, worker=False) as app:
                frozen = fleet.start()[0]
                handle = await app.start(Long.call(0.8))
                await until(fleet.notes)
                frozen.send_signal(signal.SIGSTOP)
                fleet.start()
                await until(lambda: len(fleet.notes()) >= 2)
                frozen.send_signal(signal.SIGCONT)
                assert await handle.result(timeout=30) == "done"
                await until(lambda: "drops its flows and starts again" in fleet.log_of(0))
                log = [line.event for line in await app.read_lines(handle.id)]
                done = [event for event in log if isinstance(event, ItemCompleted)]
                assert [event.attempt for event in done] == [2]
            check_notes(fleet.notes())

    asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_sigterm_finishes_what_runs_and_hands_the_rest_over(address: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Fleet(address, tmp_path, grace=5.0) as fleet:
            async with open_app(address, worker=False) as app:
                worker = fleet.start()[0]
                short, waiting = await app.start(Long.call(0.5)), await app.start(Later.call(0.7))
                await until(lambda: len(fleet.notes()) >= 2)
                assert await asyncio.to_thread(fleet.stop, worker) == 0
                assert await short.status() != "running"
                fleet.start()
                assert await short.result(timeout=20) == "done"
                assert await waiting.result(timeout=20) == 5
                for handle in (short, waiting):
                    kinds = [
                        line.event.failure.kind
                        for line in await app.read_lines(handle.id)
                        if isinstance(line.event, AttemptFailed)
                    ]
                    assert "lost" not in kinds
            check_notes(fleet.notes())

    asyncio.run(scenario())


@pytest.mark.promise("A14")
def test_an_attempt_that_outlasts_the_grace_period_is_given_back_and_does_not_count(
    address: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        with Fleet(address, tmp_path, grace=0.2) as fleet:
            async with open_app(address, worker=False) as app:
                worker = fleet.start()[0]
                handle = await app.start(Long.call(1.0))
                await until(fleet.notes)
                assert await asyncio.to_thread(fleet.stop, worker) == 0
                fleet.start()
                assert await handle.result(timeout=20) == "done"
                log = [line.event for line in await app.read_lines(handle.id)]
                assert not [event for event in log if isinstance(event, AttemptFailed)]
                assert [event.attempt for event in log if isinstance(event, ItemCompleted)] == [1]

    asyncio.run(scenario())
