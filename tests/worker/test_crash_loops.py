"""Flows that take their workers down, those beside them, and taking up many or long flows at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from tests.worker.fleet import Fleet
from tests.worker.shop import Deadly, Small

import redrive
from redrive import Workflow, action, current_attempt, workflow
from redrive.client.app import App
from redrive.flows import chunks, replay
from redrive.flows.events import AnyEvent, AttemptFailed, FlowFailed, read_turn
from redrive.flows.history import FlowHistory
from redrive.flows.registry import known_definitions
from redrive.stores.leases import NewWorker
from redrive.worker import event_rows
from redrive.worker.recovery import flow_loader
from redrive.worker.recovery.evidence import MOST, SUSPECT, Evidence

pytestmark = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)

GONE = NewWorker(name="gone:1", definitions=())
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen_yet() -> None:
    SEEN.clear()


async def until(asked: Callable[[], Awaitable[object]]) -> None:
    end = time.monotonic() + 10
    while not await asked():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def lose_owners(app: App, count: int, accused: tuple[str, str] | None = None) -> None:
    """Workers claim all that there is, and are gone."""
    for _ in range(count):
        lease = await app.store.acquire_lease(GONE, 60.0)
        await app.store.claim(lease, known_definitions(), None, 1000, app.now())
        if accused is not None:
            await app.store.accuse(lease, *accused)
        # Only now: however slow the machine is, the lease lasted for as long as it was needed.
        assert await app.store.extend_lease(lease, 0.001)
        await until(app.store.reap_leases)


@pytest.mark.promise("P18")
def test_a_flow_whose_code_ends_its_process_is_a_dead_letter_after_five_and_those_beside_it_go_on(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_NOTES", "")

    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            deadly = await app.start(Deadly.call())
            beside = await app.start(Small.call(3))
            for _ in range(SUSPECT + MOST):
                (worker,) = fleet.start()
                assert await asyncio.to_thread(worker.wait, 20) == 9
                assert await app.dead_letters() == []
            fleet.start()
            with pytest.raises(redrive.errors.CrashLoopError, match="while they loaded this flow and no other"):
                await deadly.result(timeout=20)
            await beside.result(timeout=20)
            (letter,) = await app.dead_letters()
            assert (letter.flow_id, letter.kind) == (deadly.id, "poison")
            told = await app.explain(deadly.id)
            assert told.headline.startswith("failed for good: it takes its workers down")
            assert told.next_steps[0].text == "fix the workflow's code"

    with Fleet(address, tmp_path, lease=1.0) as fleet:
        asyncio.run(scenario(fleet))


@action(name="crash_loops.note")
async def note(number: int) -> int:
    return number


@workflow(name="crash_loops.Plain")
class Plain(Workflow):
    async def run(self, number: int) -> int:
        SEEN.append(number)
        return await note(number)


def test_a_flow_that_lost_its_owners_through_no_fault_of_its_own_goes_on(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            handles = [await app.start(Plain.call(number)) for number in range(5)]
            await lose_owners(app, 4)
        async with redrive.open(address) as app:
            for number, handle in enumerate(handles):
                assert await app.handle(handle.id).result(timeout=10) == number
                record = await app.find(handle.id)
                assert (record.lost_owners, record.blame) == (0, None)

    asyncio.run(scenario())


def test_one_that_is_lost_when_taken_up_alone_fails_without_its_code_and_can_be_redriven(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            handle = await app.start(Plain.call(7))
            for number in range(MOST):
                # As a worker notes it before it takes the flow up, and ends.
                await lose_owners(app, 1, accused=(handle.id, Evidence(alone=number).lost_alone().write()))
        async with redrive.open(address) as app:
            with pytest.raises(redrive.errors.CrashLoopError):
                await app.handle(handle.id).result(timeout=10)
            assert SEEN == []
            await app.redrive(handle.id, by="ann", why="mended")
            assert await app.handle(handle.id).result(timeout=10) == 7

    asyncio.run(scenario())


@workflow(name="crash_loops.Endless")
class Endless(Workflow):
    async def run(self) -> None:
        while True:
            SEEN.append(await note(0))


def test_a_worker_that_is_never_at_rest_takes_up_a_suspect_and_what_comes_after_it(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            suspect = await app.start(Plain.call(1), queue="held")
            await lose_owners(app, 2)
            await app.store.configure_queue("held", {"limit": 0})
        async with redrive.open(address, poll=0.1, grace=0.0) as app:
            for _ in range(30):
                await app.start(Endless.call())

            async def all_run() -> bool:
                return len(SEEN) > 300

            await until(all_run)
            await app.store.configure_queue("held", {"limit": None})
            assert await app.handle(suspect.id).result(timeout=10) == 1
            assert await (await app.start(Plain.call(2), key="after it")).result(timeout=10) == 2

    asyncio.run(scenario())


# Taking up many, or long ones


class Turns:
    """Counts the turns of the event loop while it is entered."""

    def __enter__(self) -> Self:
        self.count = 0
        self._turn()
        return self

    def _turn(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def __exit__(self, *raised: object) -> None:
        self._next.cancel()


TURNS: list[Turns] = []


@workflow(name="crash_loops.Stepwise")
class Stepwise(Workflow):
    async def run(self, steps: int) -> int:
        for number in range(steps):
            SEEN.append(TURNS[-1].count)
            await note(number)
        await asyncio.sleep(3600)
        return steps


async def waiting_flows(address: str, count: int, steps: int) -> None:
    with Turns() as turns:
        TURNS.append(turns)
        async with redrive.open(address) as app:
            handles = [await app.start(Stepwise.call(steps)) for _ in range(count)]

            async def all_wait() -> bool:
                return {record.status for record in await app.flows()} == {"waiting"}

            await until(all_wait)
            for handle in handles:
                await handle.pause()
    SEEN.clear()


async def taken_up(address: str, count: int) -> None:
    """All of them are resumed and replayed, so that so much is seen."""

    async def is_seen() -> bool:
        return len(SEEN) >= count

    async with redrive.open(address, worker=False) as app:
        for record in await app.flows():
            await app.handle(record.id).resume()
    with Turns() as turns:
        TURNS.append(turns)
        async with redrive.open(address):
            await until(is_seen)


def test_while_many_flows_are_taken_up_others_have_their_turns(address: str) -> None:
    async def scenario() -> None:
        await waiting_flows(address, count=10, steps=1)
        await taken_up(address, count=10)

    asyncio.run(scenario())
    assert len(set(SEEN[:10])) == 10


def test_while_a_long_flow_is_replayed_others_have_their_turns(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        await waiting_flows(address, count=1, steps=50)
        monkeypatch.setattr(replay, "LINES_PER_CHUNK", 10)
        await taken_up(address, count=50)

    asyncio.run(scenario())
    assert len(set(SEEN[:50])) >= 5


def test_while_a_long_log_is_read_and_folded_others_have_their_turns(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_of: dict[str, set[int]] = {"read": set(), "fold": set()}
    apply = FlowHistory.apply

    def reads(body: str) -> list[AnyEvent]:
        turns_of["read"].add(TURNS[-1].count)
        return read_turn(body)

    def folds(history: FlowHistory, at: float, event: AnyEvent) -> None:
        turns_of["fold"].add(TURNS[-1].count)
        apply(history, at, event)

    async def scenario() -> None:
        await waiting_flows(address, count=1, steps=50)
        monkeypatch.setattr(chunks, "CHUNK_SIZE", 10)
        monkeypatch.setattr(event_rows, "read_turn", reads)
        monkeypatch.setattr(FlowHistory, "apply", folds)
        await taken_up(address, count=50)

    asyncio.run(scenario())
    assert len(turns_of["read"]) >= 5
    assert len(turns_of["fold"]) >= 5


@action(name="crash_loops.pay")
async def pay() -> str:
    SEEN.append("paid")
    raise redrive.Permanent("said no")


HELD: list[asyncio.Event] = []


@action(name="crash_loops.held_up")
async def held_up() -> int:
    await HELD[0].wait()
    return current_attempt().number


@workflow(name="crash_loops.FailsAtLast")
class FailsAtLast(Workflow):
    async def run(self, ends: bool) -> int:
        beside = asyncio.create_task(held_up())
        for number in range(50):
            SEEN.append(TURNS[-1].count)
            await note(number)
        try:
            await pay()
        except redrive.Permanent:
            if ends:
                raise
        return await beside


async def begun_anew(app: App, ends: bool) -> redrive.Handle[int]:
    """A flow whose last step has failed and is to be tried again."""
    handle = await app.start(FailsAtLast.call(ends))

    async def has_failed() -> bool:
        lines = await app.log(handle.id)
        return any(isinstance(line.event, FlowFailed if ends else AttemptFailed) for line in lines)

    await until(has_failed)
    SEEN.clear()
    await app.reset_step(handle.id, "crash_loops.pay", by="ann", why="mended")
    return handle


@pytest.mark.parametrize("ends", [True, False], ids=["failed flow", "flow that goes on"])
def test_while_a_long_flow_that_is_redriven_is_replayed_others_have_their_turns(
    address: str, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    async def scenario() -> None:
        HELD[:] = [asyncio.Event()]
        with Turns() as turns:
            TURNS.append(turns)
            async with redrive.open(address) as app:
                monkeypatch.setattr(replay, "LINES_PER_CHUNK", 10)
                await begun_anew(app, ends)

                async def is_seen() -> bool:
                    return "paid" in SEEN

                await until(is_seen)
                HELD[0].set()

    asyncio.run(scenario())
    assert len(set(SEEN[:50])) >= 5


def test_an_attempt_that_ends_while_its_flow_is_built_anew_and_its_worker_stops_is_not_made_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        HELD[:] = [asyncio.Event()]
        with Turns() as turns:
            TURNS.append(turns)
            async with redrive.open(address) as app:
                monkeypatch.setattr(replay, "LINES_PER_CHUNK", 10)
                handle = await begun_anew(app, ends=False)
                while not SEEN:  # noqa: ASYNC110 - right after its first piece
                    await asyncio.sleep(0)
                HELD[0].set()
                app.stop()
            async with redrive.open(address) as app:
                assert await app.handle(handle.id).result(timeout=10) == 1

    asyncio.run(scenario())


def test_of_long_logs_few_are_read_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    async def scenario() -> None:
        await waiting_flows(address, count=10, steps=2)
        kind = type(redrive.open(address).store)
        read_events = kind.read_events

        async def counted(self: Any, flow_ids: Sequence[str]) -> Any:
            read.append(len(flow_ids))
            return await read_events(self, flow_ids)

        monkeypatch.setattr(kind, "read_events", counted)
        monkeypatch.setattr(flow_loader, "READ_AT_ONCE", 2000)
        await taken_up(address, count=20)

    asyncio.run(scenario())
    assert sum(read) >= 10
    assert max(read) <= 4


HOOKS: list[Callable[[], None]] = []


@workflow(name="crash_loops.PaysAtLast")
class PaysAtLast(Workflow):
    async def run(self) -> str:
        for number in range(20):
            await note(number)
            if number == 10:
                for hook in HOOKS:
                    hook()
        return await pay()


def test_what_is_said_of_a_failed_step_is_kept_though_its_worker_stops_while_the_flow_is_replayed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with redrive.open(address) as app:
            handle = await app.start(PaysAtLast.call())
            with pytest.raises(redrive.Permanent):
                await handle.result(timeout=10)
        async with redrive.open(address, worker=False) as app:
            await app.complete_step(handle.id, "crash_loops.pay", "by hand", by="ann", why="paid it myself")
        monkeypatch.setattr(replay, "LINES_PER_CHUNK", 2)
        stopped = asyncio.Event()
        async with redrive.open(address) as app:

            def stop() -> None:
                app.stop()
                stopped.set()

            HOOKS.append(stop)
            await asyncio.wait_for(stopped.wait(), 10)
            HOOKS.clear()
        async with redrive.open(address) as app:
            assert await app.handle(handle.id).result(timeout=10) == "by hand"

    asyncio.run(scenario())
    assert SEEN == ["paid"]
