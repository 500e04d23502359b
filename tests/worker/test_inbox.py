"""What a flow is told while it works or waits: cancel, pause, resume."""

import asyncio
from typing import Any, cast

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.determinism.clock import current_clock
from redrive.flows.events import CancelRequested
from redrive.stores.leases import Lease
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Message
from redrive.testing import FlowApp, FlowOutcome, flow_app
from redrive.worker.flow_table import FlowTable
from redrive.worker.inbox_reader import InboxReader

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


@action(name="told.do")
async def do(what: str) -> str:
    RAN.append(what)
    return what


@action(name="told.fail", retry=RetryPolicy(attempts=None, backoff_seconds=3600))
async def fail() -> None:
    RAN.append("fail")
    raise ConnectionError


@action(name="told.hang")
async def hang() -> None:
    RAN.append("hang")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        RAN.append("hang cancelled")
        raise


@workflow(name="told.CleansUp")
class CleansUp(Workflow):
    """Waits in one of many ways, and cleans up with actions whatever happens."""

    async def run(self, how: str) -> str:
        try:
            if how == "backoff":
                await fail()
            elif how == "running":
                await hang()
            elif how == "sleep":
                await asyncio.sleep(86_400)
            elif how == "gather":
                await asyncio.gather(hang(), fail(), asyncio.sleep(86_400))
            elif how == "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(hang())
                    group.create_task(fail())
            elif how == "timeout":
                async with asyncio.timeout(86_400):
                    await hang()
            elif how == "shield":
                await asyncio.shield(hang())
        except asyncio.CancelledError:
            await do("noticed")
            raise
        finally:
            await do("cleaned up")
        return "unreached"


async def waiting(app: FlowApp, definition: Any, *args: Any) -> redrive.Handle[Any]:
    handle: redrive.Handle[Any] = await app.start(definition.call(*args))
    await app.until(lambda: app.witness.commits > 0)
    if not (set(args) & {"running", "gather", "group", "timeout", "shield"}):
        await app.settled(handle)
    else:
        await app.until(lambda: "hang" in RAN)
    return handle


@pytest.mark.promise("T8")
@pytest.mark.parametrize("paused_first", [False, True], ids=["", "paused first"])
@pytest.mark.parametrize("how", ["backoff", "running", "sleep", "gather", "group", "timeout", "shield"])
def test_cancelling_ends_every_kind_of_wait_at_once_and_the_code_cleans_up(how: str, paused_first: bool) -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, CleansUp, how)
                if paused_first:
                    await handle.pause(by="bob", why="wait a moment")
                    await app.until(lambda: app.witness.commits > 1)
                await handle.cancel(by="ann", why="enough")
                return await app.outcome(handle, within=10)

    outcome = asyncio.run(story())
    assert outcome.status == "cancelled"
    assert isinstance(outcome.error, redrive.FlowCancelledError)
    assert [what for what in RAN if what in ("noticed", "cleaned up")] == ["noticed", "cleaned up"]
    assert outcome.duration == 0
    assert [line.event.by for line in outcome.lines if isinstance(line.event, CancelRequested)] == ["ann"]
    assert ("hang" in RAN) == ("hang cancelled" in RAN)


@pytest.mark.parametrize("moment", ["with the first", "while it cleans up", "while that is paused"])
def test_cancelling_again_leaves_the_cleaning_up_alone(moment: str) -> None:
    gate = asyncio.Event()

    @action(name="told.release_slowly")
    async def release_slowly() -> None:
        RAN.append("release")
        await gate.wait()
        RAN.append("released")

    @workflow(name="told.ReleasesSlowly")
    class ReleasesSlowly(Workflow):
        async def run(self) -> None:
            try:
                await asyncio.sleep(86_400)
            finally:
                await release_slowly()
                await do("cleaned up")

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, ReleasesSlowly)
                await handle.cancel(by="ann", why="enough")
                if moment != "with the first":
                    await app.until(lambda: "release" in RAN)
                if moment == "while that is paused":
                    await handle.pause(by="bob", why="wait a moment")
                read = app.witness.commits
                await handle.cancel(by="ann", why="is it gone?")
                await app.until(lambda: "release" in RAN and app.witness.commits > read)
            gate.set()
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.status == "cancelled"
    assert RAN == ["release", "released", "cleaned up"]
    assert [line.event.why for line in outcome.lines if isinstance(line.event, CancelRequested)] == ["enough"]


def test_code_may_refuse_to_be_cancelled() -> None:
    @workflow(name="told.Stubborn")
    class Stubborn(Workflow):
        async def run(self) -> str:
            try:
                await asyncio.sleep(86_400)
            except asyncio.CancelledError:
                await asyncio.sleep(3600)
            return await do("went on")

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, Stubborn)
                await handle.cancel()
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "went on"
    assert outcome.duration == 3600


def test_a_cancelled_flow_whose_cleaning_up_fails_is_a_dead_letter_and_can_be_redriven() -> None:
    broken = [True]

    @action(name="told.release")
    async def release() -> None:
        RAN.append("release")
        if broken[0]:
            raise redrive.Permanent("locked")

    @workflow(name="told.Releases")
    class Releases(Workflow):
        async def run(self) -> None:
            try:
                await asyncio.sleep(86_400)
            finally:
                await release()

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, Releases)
                await handle.cancel()
                failed = await app.outcome(handle)
                broken[0] = False
                await app.redrive(handle.id, by="ann", why="unlocked")
                return failed, await app.outcome(handle)

    failed, cancelled = asyncio.run(story())
    assert failed.status == "failed"
    assert cancelled.status == "cancelled"
    assert RAN == ["release", "release"]


def test_a_paused_flow_misses_nothing_and_makes_up_for_it_when_resumed() -> None:
    @workflow(name="told.Timers")
    class Timers(Workflow):
        async def run(self) -> float:
            began = workflow.now()
            await asyncio.gather(asyncio.sleep(60), asyncio.sleep(120), self.work())
            return (workflow.now() - began).total_seconds()

        async def work(self) -> None:
            await asyncio.sleep(30)
            await do("work")

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, Timers)
                await handle.pause(by="bob", why="maintenance")
                paused = await app.outcome(handle)
                app.clock.advance(3600)
                assert (await app.outcome(handle)).lines == paused.lines
                assert RAN == []
                await handle.resume(by="bob", why="done")
                return paused, await app.outcome(handle)

    paused, done = asyncio.run(story())
    assert paused.status == "paused"
    assert done.result == 3600
    assert RAN == ["work"]


def test_what_runs_may_end_while_the_flow_is_paused_and_nothing_new_begins() -> None:
    @action(name="told.slow")
    async def slow() -> str:
        clock = current_clock()
        RAN.append("slow begins")
        await clock.asleep_until(clock.monotonic() + 60)
        RAN.append("slow ends")
        return "slow"

    @workflow(name="told.Slow")
    class Slow(Workflow):
        async def run(self) -> list[str]:
            return [await slow(), await do("next")]

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Slow.call())
                await app.until(lambda: RAN)
                await handle.pause()
                await app.until(lambda: app.witness.commits > 1)
                assert await handle.status() == "running"
                app.clock.advance(60)
                assert (await app.outcome(handle)).status == "paused"
                assert RAN == ["slow begins", "slow ends"]
            await app.kill()
            app.revive()
            assert (await app.outcome(handle)).status == "paused"
            await handle.resume()
            return await app.outcome(handle)

    assert asyncio.run(story()).result == ["slow", "next"]


@pytest.mark.parametrize("again", [1, 5])
def test_a_flow_hears_every_message_however_often_it_was_told_something(again: int) -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await waiting(app, CleansUp, "backoff")
                for _ in range(again):
                    await handle.pause()
                    assert (await app.outcome(handle)).status == "paused"
                    await handle.resume()
                    await app.settled(handle)
                await handle.cancel()
                return await app.outcome(handle, within=10)

    outcome = asyncio.run(story())
    assert outcome.status == "cancelled"
    assert RAN == ["fail", "noticed", "cleaned up"]


def test_a_flow_that_has_not_begun_can_be_paused_and_cancelled() -> None:
    async def story() -> list[FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                paused = await app.start(CleansUp.call("sleep"), delay=60)
                cancelled = await app.start(CleansUp.call("sleep"), delay=60)
                await paused.pause()
                await cancelled.cancel()
                outcomes = [await app.outcome(paused), await app.outcome(cancelled)]
                app.clock.advance(60)
                await paused.resume()
                await paused.cancel()
                return [*outcomes, await app.outcome(paused)]

    outcomes = asyncio.run(story())
    assert [outcome.status for outcome in outcomes] == ["paused", "cancelled", "cancelled"]


def test_a_flow_that_is_paused_and_resumed_before_it_begins_begins_once() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            await app.kill()
            handle = await app.start(CleansUp.call("nothing"))
            await handle.pause()
            await handle.resume()
            app.revive()
            return await app.outcome(handle)

    assert asyncio.run(story()).result == "unreached"
    assert RAN == ["cleaned up"]


def test_a_flow_whose_worker_died_after_reading_its_mail_waits_quietly() -> None:
    """The inbox is empty, but the flow's row does not say so yet: that must not look like unread mail for ever."""
    gate = asyncio.Event()

    @action(name="told.gated")
    async def gated() -> None:
        RAN.append("gated")
        await gate.wait()

    @workflow(name="told.Gated")
    class Gated(Workflow):
        async def run(self) -> str:
            await gated()
            await asyncio.sleep(86_400)
            return "done"

    async def story() -> tuple[int, FlowOutcome]:
        async with flow_app() as app:
            handle = await app.start(Gated.call())
            await app.until(lambda: RAN)
            await handle.pause()
            await handle.resume()
            await app.until(lambda: app.witness.commits >= 2)
            # Until the mail has been read; who reads it tells nobody.
            while await app.store.read_inbox(app._worker.lease):  # type: ignore[union-attr,arg-type] # noqa: ASYNC110 - in a store
                await asyncio.sleep(0.001)
            await app.kill()
            gate.set()
            app.revive()
            await app.until(lambda: len(RAN) == 2)
            with app.clock.frozen():
                await app.settled(handle)
                await asyncio.sleep(0.05)
                claims = (await app.find(handle.id)).claims
            return claims, await app.outcome(handle)

    claims, outcome = asyncio.run(story())
    assert claims < 5
    assert outcome.result == "done"


class SlowInbox(MemoryStore):
    """Holds one answer of `read_inbox` back: the second one with a message to pause."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_seen = 0
        self.is_held = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def read_inbox(self, lease: Lease) -> list[Message]:
        messages = await super().read_inbox(lease)
        if any("pause" in message.body for message in messages):
            self.pauses_seen += 1
            if self.pauses_seen == 2:
                self.is_held.set()
                await self.may_answer.wait()
        return messages


@pytest.mark.promise("A14")
def test_an_answer_of_the_inbox_that_comes_late_does_not_pause_a_flow_that_was_resumed_since() -> None:
    async def story() -> FlowOutcome:
        store = SlowInbox()
        async with flow_app(store) as app:
            # The inbox is read while there are flows in memory.
            other = await app.start(hang())
            await app.until(lambda: "hang" in RAN)
            with app.clock.frozen():
                # Not in memory yet, and then kept there: it starts soon.
                flow = await app.start(do("it"), delay=3)
                await flow.pause()
                await store.is_held.wait()
                assert await app.settled(flow) == "paused"
                await flow.resume()
                await app.until(lambda: app._worker is not None and flow.id in app._worker.flows.by_id)
                store.may_answer.set()
                await app.until(lambda: app._worker is not None and app._worker.journal.is_drained)
            await other.cancel()
            return await app.outcome(flow)

    assert asyncio.run(story()).status == "completed"


@pytest.mark.promise("X5")
def test_a_worker_that_stops_while_it_reads_the_inbox_still_judges_what_waited_for_that() -> None:
    """Otherwise the attempt counts as lost, though its handler has answered."""

    class SlowStore(MemoryStore):
        answers = asyncio.Event()

        async def read_inbox(self, lease: Lease) -> list[Message]:
            await self.answers.wait()
            return []

    async def story() -> list[str]:
        store = SlowStore()
        flows = FlowTable(10)
        reader = InboxReader(store, Lease(epoch=1, worker="w"), flows, cast("Any", None), cast("Any", None), 60.0)
        judged: list[str] = []
        reader.after("flow", lambda: judged.append("judged"))
        reading = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        store.answers.set()
        await reader.read()
        return judged

    assert asyncio.run(story()) == ["judged"]
