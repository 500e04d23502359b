"""Flows that were redriven or settled by hand, and what comes after that."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import redrive
from redrive import Graph, RetryPolicy, Workflow, action, read_graph, workflow
from redrive.determinism.clock import current_clock
from redrive.explain.explanation import explain_text
from redrive.explain.parts import ItemEntry
from redrive.flows.events import FlowFailed
from redrive.testing import FlowOutcome, flow_app
from redrive.worker.recovery.replay import Replayer

RAN: list[str] = []
BROKEN: set[str] = set()
ONCE = RetryPolicy(attempts=1)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()
    BROKEN.clear()


@action(name="again.do", retry=ONCE)
async def do(what: str) -> str:
    RAN.append(what)
    if what in BROKEN:
        raise redrive.Permanent(f"{what} is broken")
    return what


@action(name="again.hang", retry=ONCE)
async def hang() -> str:
    await asyncio.Event().wait()
    return "unreached"


@action(name="again.two_seconds")
async def two_seconds() -> str:
    clock = current_clock()
    await clock.asleep_until(clock.monotonic() + 2)
    return "slow"


@action(name="again.away", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
async def away() -> int:
    raise ConnectionError("down")


@workflow(name="again.Buggy")
class Buggy(Workflow):
    async def run(self) -> int:
        task = asyncio.create_task(away())
        await do("something")
        if "code" in BROKEN:
            raise KeyError("a mistake in its own code, while an action waits for its retry")
        return await task


@pytest.mark.promise("P17")
def test_a_step_completed_by_hand_in_a_flow_whose_code_fails_again_reopens_it_once() -> None:
    BROKEN.add("code")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(Buggy.call())
            assert (await app.outcome(flow)).status == "failed"
            await app.complete_step(flow.id, "again.away", 5, by="ann", why="done by hand")
            await app.until(lambda: app.witness.commits and app._worker is not None and not app._worker.flows.by_id)
            record = await app.find(flow.id)
            while record.messages_read < record.messages_sent or record.status != "failed":
                await asyncio.sleep(0)
                record = await app.find(flow.id)
            claims, lines = record.claims, len(await app.log(flow.id))
            for _ in range(200):
                await asyncio.sleep(0)
            assert ((await app.find(flow.id)).claims, len(await app.log(flow.id))) == (claims, lines)

    asyncio.run(story())


@pytest.mark.promise("P17")
def test_a_step_completed_by_hand_in_a_flow_whose_code_was_mended_counts() -> None:
    BROKEN.add("code")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(Buggy.call())
            assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            await app.complete_step(flow.id, "again.away", 5, by="ann", why="done by hand")
            while (await app.find(flow.id)).status == "failed":  # noqa: ASYNC110 - it is in a store
                await asyncio.sleep(0)
            assert (await app.outcome(flow)).result == 5

    asyncio.run(story())


@workflow(name="again.TellsInTime")
class TellsInTime(Workflow):
    async def run(self) -> str:
        async with asyncio.timeout(5):
            try:
                return await do("pay")
            except redrive.Permanent:
                # Cut by the time that was set before the failure.
                await hang()
                raise


@pytest.mark.promise("R9")
def test_what_came_of_a_failure_and_was_cut_by_an_earlier_timer_is_undone_whole() -> None:
    BROKEN.add("pay")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(TellsInTime.call())
            assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            assert await app.redrive(flow.id, by="ann", why="mended") == [flow.id]
            outcome = await app.outcome(flow)
            # Its time is over, as the log says; but it can be read, and explained.
            assert isinstance(outcome.error, TimeoutError)
            assert "TimeoutError" in (await app.explain(flow.id)).headline

    asyncio.run(story())


@workflow(name="again.CancelsLate")
class CancelsLate(Workflow):
    async def run(self) -> str:
        both = asyncio.gather(two_seconds(), do("part"))
        await asyncio.sleep(1)
        # In its first life it has failed by then; after the redrive it has not.
        both.cancel()
        await asyncio.sleep(2)
        try:
            await both
        except asyncio.CancelledError:
            RAN.append("cancelled")
        await asyncio.sleep(60)
        return await do("last")


@pytest.mark.promise("R9")
def test_a_redriven_flow_that_cancels_what_had_been_done_is_not_taken_for_another_one_after_a_crash() -> None:
    BROKEN.add("part")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(CancelsLate.call())
            assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            with app.clock.frozen():
                await app.redrive(flow.id, by="ann", why="mended")
                while (await app.find(flow.id)).status != "waiting":  # noqa: ASYNC110 - it is in a store
                    await asyncio.sleep(0)
                await app.kill()
                app.revive()
            outcome = await app.outcome(flow)
            assert (outcome.problem, outcome.result) == (None, "last")

    asyncio.run(story())


@action(name="again.rates", retry=ONCE)
async def rates() -> dict[str, float]:
    await do("rates")
    return {"rate": 2.0}


@action(name="again.price", retry=ONCE)
async def price(rate: float) -> dict[str, float]:
    await do("price")
    return {"total": rate}


PRICES = """
graph: again-prices
goals: [price]
also: [rates]
steps:
  rates: {action: again.rates, inputs: {}, outputs: {rate: number}}
  price: {action: again.price, inputs: {rate: {type: number, default: 1.0}}, outputs: {total: number}}
"""


@pytest.mark.promise("A11")
def test_a_graph_in_which_one_failed_step_ran_because_of_another_can_be_redriven() -> None:
    BROKEN.update(("rates", "price"))
    graph = read_graph(PRICES, "prices.yaml")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(graph.call({}))
            assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            assert await app.redrive(flow.id, by="ann", why="mended") == [flow.id]
            assert (await app.outcome(flow)).result == {"total": 2.0}

    asyncio.run(story())


def calls_to_go_on(monkeypatch: pytest.MonkeyPatch, many: int, midway: bool) -> int:
    """What it takes to take up a graph in which so many items have failed, and all are tried again."""
    BROKEN.update(map(str, range(many)))
    inputs = {"what": {"type": "string", "from": "all"}}
    graph = Graph("again-many", goals=["wait" if midway else "do"], also=["wait", "do"])
    graph.step("do", do, inputs=inputs, for_each="what", outputs={"done": "string"}, retry=ONCE)
    graph.step("wait", away, outputs={"n": "integer"})
    calls = 0

    def count(_frame: object, what: str, _about: object) -> None:
        nonlocal calls
        calls += what in ("call", "c_call")

    def replay(*args: Any, **settings: Any) -> Iterator[None]:
        sys.setprofile(count)
        try:
            yield from really_replay(*args, **settings)
        finally:
            sys.setprofile(None)

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(graph.call({"all": sorted(BROKEN)}))
            if midway:
                with app.clock.frozen():
                    await app.settled(flow)
                    await app.kill()
                    for index in range(many):
                        await app.reset_step(flow.id, "do", index=index, by="ann", why="mended")
            else:
                assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            monkeypatch.setattr(Replayer, "replay", replay)
            if midway:
                app.revive()
            else:
                await app.redrive(flow.id, by="ann", why="mended")
            await app.until(lambda: len(RAN) == 2 * many)

    really_replay = Replayer.replay
    RAN.clear()
    asyncio.run(story())
    monkeypatch.undo()
    return calls


@pytest.mark.promise("A11")
@pytest.mark.parametrize("midway", [False, True], ids=["failed flow", "flow that goes on"])
def test_twice_as_many_failed_items_take_twice_the_work_to_try_again(
    monkeypatch: pytest.MonkeyPatch, midway: bool
) -> None:
    few, twice = (calls_to_go_on(monkeypatch, many, midway) for many in (40, 80))
    assert 0 < twice < 3 * few


@pytest.mark.promise("P6")
@pytest.mark.parametrize("beside", ["waits", "runs", "was lost"])
def test_the_time_in_which_a_flow_lay_dead_is_no_time_of_the_steps_beside_the_one_that_failed(beside: str) -> None:
    BROKEN.add("pay")

    @action(name="again.beside", retry=redrive.Policy(deadline=60, attempts=None, backoff=redrive.constant(20)))
    async def goes_on_beside() -> str:
        number = redrive.current_attempt().number
        if beside == "waits" and ("pay" in BROKEN or number == 2):
            raise ConnectionError("down")
        if "pay" in BROKEN:
            await asyncio.Event().wait()
        return "in the end"

    @workflow(name="again.Beside")
    class Beside(Workflow):
        async def run(self) -> list[str]:
            return list(await asyncio.gather(self.pays(), goes_on_beside()))

        async def pays(self) -> str:
            await asyncio.sleep(10)
            return await do("pay")

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            flow = await app.start(Beside.call())
            if beside == "was lost":
                with app.clock.frozen():
                    await app.until(lambda: len(app.witness.executed) == 1)
                    await app.kill()
                    app.revive()
            assert (await app.outcome(flow)).status == "failed"
            app.clock.advance(3600)
            BROKEN.clear()
            await app.redrive(flow.id, by="ann", why="the bank is back")
            return await app.outcome(flow)

    assert asyncio.run(story()).result == ["pay", "in the end"]


@pytest.mark.promise("P17")
@pytest.mark.parametrize("how", ["redriven", "reset"])
def test_code_that_does_not_fit_when_a_flow_is_put_back_to_work_can_still_be_mended(how: str) -> None:
    if how == "reset":
        BROKEN.add("first")

    def deploy(version: str) -> type[Workflow]:
        @workflow(name="again.Deployed")
        class Deployed(Workflow):
            async def run(self) -> str:
                if version == "does not fit":
                    await do("something else")
                first, second = await asyncio.gather(do("first"), do("second"), return_exceptions=True)
                if version == "fails":
                    raise KeyError("a mistake in its own code")
                return "away" if isinstance(first, Exception) and await away() else f"{first} {second}"

        return Deployed

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            flow = await app.start(deploy("fails" if how == "redriven" else "fits").call())
            with app.clock.frozen():
                await app.settled(flow)
                await app.kill()
                app.revive()
                deploy("does not fit")
                BROKEN.clear()
                if how == "redriven":
                    await app.redrive(flow.id, by="ann", why="mended")
                else:
                    await app.reset_step(flow.id, "again.do", by="ann", why="it works again")
                for _ in range(2):
                    assert (await app.outcome(flow)).status == "parked"
                    await flow.resume(by="ann", why="mended")
                assert (await app.outcome(flow)).status == "parked"
            deploy("fits")
            await flow.resume(by="ann", why="mended at last")
            return await app.outcome(flow)

    assert asyncio.run(story()).result == "first second"
    assert RAN.count("first") == (2 if how == "reset" else 1)
    assert RAN.count("second") == 1


GAVE_UP_BESIDE = read_graph(
    """
graph: again.unwanted
goals: [deliver]
also: [announce]
steps:
  pay: {action: again.do, inputs: {what: {value: pay}}, outputs: [paid]}
  fetch: {action: again.slowly, inputs: {seconds: {value: 2}}, outputs: [parcel]}
  announce: {action: again.slowly, inputs: {seconds: {value: 9}}}
  deliver: {action: again.do, inputs: {what: {value: deliver}}, depends_on: [pay, fetch]}
""",
    "unwanted.yaml",
)


@action(name="again.slowly", retry=redrive.Policy(attempts=5, backoff=redrive.constant(20)))
async def slowly(seconds: int) -> str:
    clock = current_clock()
    until = clock.monotonic() + seconds
    RAN.append("slowly")
    await clock.asleep_until(until)
    if "fetch" in BROKEN:
        raise ConnectionError("down")
    return "parcel"


@pytest.mark.promise("T10")
@pytest.mark.parametrize("verb", ["reset", "resolve"])
def test_a_step_that_gave_up_since_nobody_needed_it_goes_on_when_it_is_needed_again(verb: str) -> None:
    BROKEN.update(["pay", "fetch"])

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(GAVE_UP_BESIDE.call())
                await app.until(lambda: RAN.count("slowly") == 2)
                while (await app.steps_of(flow.id))[0].state != "failed":  # noqa: ASYNC110 - it is in a store
                    await asyncio.sleep(0)
                app.clock.advance(2)
                while (await app.steps_of(flow.id))[1].state == "running":  # noqa: ASYNC110 - it is in a store
                    await asyncio.sleep(0)
                assert {step.name: step.state for step in await app.steps_of(flow.id)}["fetch"] == "abandoned"
                BROKEN.clear()
                await getattr(app, f"{verb}_step")(flow.id, "pay", by="ann", why="the bank is back")
            return await app.outcome(flow)

    outcome = asyncio.run(story())
    assert outcome.result == {"deliver": "deliver"}
    assert [line.event for line in outcome.lines if isinstance(line.event, FlowFailed)] == []


@action(name="again.stopped", retry=redrive.Policy(attempts=1, idempotent=False, deadline=None))
async def stopped() -> int:
    RAN.append("stopped")
    if "late" in BROKEN:
        await asyncio.Event().wait()
    return 5


@workflow(name="again.Group")
class Group(Workflow):
    async def run(self, beside: str) -> int:
        try:
            async with asyncio.TaskGroup() as both:
                other = both.create_task(self.beside(beside))
                both.create_task(self.late())
        except ExceptionGroup:
            if beside in ("waits", "ran"):
                raise
            return await away() if beside == "runs" else len(await hang())
        return other.result()

    async def beside(self, how: str) -> int:
        return await (away() if how == "waits" else stopped())

    async def late(self) -> str:
        await asyncio.sleep(2)
        return await do("late")


@pytest.mark.promise("A13")
def test_a_step_that_a_failure_had_cancelled_is_told_as_waiting_when_the_failure_was_undone() -> None:
    BROKEN.add("late")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(Group.call("waits"))
            assert (await app.outcome(flow)).status == "failed"
            with app.clock.frozen():
                BROKEN.clear()
                await app.redrive(flow.id, by="ann", why="mended")
                assert await app.settled(flow) == "waiting"
                told = await app.explain(flow.id)
                assert [wait.what for wait in told.waits_for] == ["attempt 2 of 9 of again.away (item 1)"]
                assert "no longer waited for" not in explain_text(told)

    asyncio.run(story())


@pytest.mark.promise("A13")
def test_an_attempt_that_a_failure_had_stopped_is_not_told_as_running_when_the_failure_was_undone() -> None:
    BROKEN.add("late")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(Group.call("ran"))
            assert (await app.outcome(flow)).status == "failed"
            await app.kill()
            await app.redrive(flow.id, by="ann", why="mended")
            await flow.pause(by="ann", why="not yet")
            app.revive()
            assert (await app.outcome(flow)).status == "paused"
            told = (await app.explain(flow.id)).timeline
            assert [item.state for item in told if isinstance(item, ItemEntry)] == ["waiting", "waiting"]

    asyncio.run(story())


@pytest.mark.promise("T10")
@pytest.mark.parametrize("beside", ["runs", "runs, and the flow is in memory"])
def test_an_attempt_that_a_failure_had_stopped_does_not_count_when_that_is_reset(beside: str) -> None:
    BROKEN.add("late")

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            flow = await app.start(Group.call(beside))
            with app.clock.frozen():
                await app.until(lambda: "stopped" in RAN)
                app.clock.advance(2)
                await app.until(lambda: len(app.witness.executed) == 3)
                BROKEN.clear()
                await app.reset_step(flow.id, "again.do", by="ann", why="mended")
            return await app.outcome(flow)

    outcome = asyncio.run(story())
    assert (outcome.result, outcome.attempts) == (5, {1: 1, 2: 2})
    assert RAN == ["stopped", "late", "stopped", "late"]
