"""The testing kit for durable flows: virtual time, workers that are killed, and a crash at every commit."""

import asyncio
import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import AttemptTimeoutError, Graph, RetryPolicy, Script, Workflow, action, current_attempt, workflow
from redrive.determinism.clock import SystemClock, current_clock
from redrive.errors import LeaseLostError, StoreUnavailableError
from redrive.pipeline import Pipeline, RetryInterceptor, StageContext
from redrive.stores.leases import Lease
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch
from redrive.testing import FlowApp, crash_everywhere, flow_app, run_flow, virtual_clock

WEEK = 7 * 86_400


@action(name="kit.flaky")
async def flaky(times: int, result: str = "done") -> str:
    if current_attempt().number <= times:
        raise ConnectionError("no answer")
    return result


@action(name="kit.plain")
def plain(seconds: float = 0.0) -> str:
    time.sleep(seconds)
    return "plain"


@action(name="kit.wait_really")
async def wait_really(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


@action(name="kit.take_long")
async def take_long(seconds: float) -> str:
    clock = current_clock()
    await clock.asleep_until(clock.monotonic() + seconds)
    return "took long"


@action(name="kit.hang", retry=RetryPolicy(attempts=3))
async def hang() -> None:
    await asyncio.Event().wait()


@workflow(name="kit.FailsThrice")
class FailsThrice(Workflow):
    async def run(self) -> str:
        return await self.run_action(flaky(9), retry=RetryPolicy(attempts=3))


@workflow(name="kit.Weekly")
class Weekly(Workflow):
    async def run(self, times: int) -> str:
        patient = RetryPolicy(attempts=times + 2, backoff_seconds=86_400, max_backoff_seconds=WEEK, jitter=0)
        found = await self.run_action(flaky(times), retry=patient)
        await asyncio.sleep(WEEK)
        return found


def test_a_week_of_backoff_takes_milliseconds() -> None:
    outcome = run_flow(Weekly.call(times=3))
    assert outcome.status == "completed"
    assert outcome.result == "done"
    assert outcome.error is None
    assert outcome.waits == [86_400, 2 * 86_400, 4 * 86_400]
    assert outcome.sleeps == [WEEK]
    assert outcome.duration == 2 * WEEK
    assert outcome.steps == ["kit.flaky"]
    assert outcome.attempts == {1: 4}
    assert [one.attempt for one in outcome.executed] == [1, 2, 3, 4]


def test_a_failed_flow_has_its_error_and_prints_its_log() -> None:
    outcome = run_flow(FailsThrice.call())
    assert outcome.status == "failed"
    assert isinstance(outcome.error, ConnectionError)
    text = str(outcome)
    assert "failed with ConnectionError: no answer" in text
    assert 'ItemStarted item=1 step=kit.flaky {"times":9} attempt=1' in text
    assert "AttemptFailed item=1 attempt=3 ConnectionError: no answer [exception] -> gave up: exhausted" in text


def test_in_an_async_test_it_says_what_to_use_instead() -> None:
    async def test() -> None:
        run_flow(Weekly.call(times=1))

    with pytest.raises(RuntimeError, match="use `async with flow_app"):
        asyncio.run(test())


def test_in_an_event_loop_that_cannot_be_looked_into_it_does_not_begin() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def test() -> None:
        async with flow_app() as app:
            await (await app.start(Weekly.call(times=1))).result(timeout=5)

    with pytest.raises(RuntimeError, match=r"uvloop.*asyncio\.run"):
        uvloop.run(test())


def test_time_stands_still_while_the_clock_is_frozen() -> None:
    async def test() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Weekly.call(times=1))
                assert await app.settled(handle) == "waiting"
                (retry,) = await app.retries()
                assert retry.scheduled_at == app.clock.wall() + 86_400
                app.clock.advance(86_399)
                assert await app.settled(handle) == "waiting"
                app.clock.advance(1)
                await app.until(lambda: len(app.witness.executed) == 2)
                assert await app.settled(handle) == "waiting"
                assert await app.retries() == []
            assert await handle.result() == "done"
            assert app.clock.now == 86_400 + WEEK

    asyncio.run(test())


def test_a_flow_whose_time_has_come_is_settled_only_after_it_went_on() -> None:
    async def test() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Weekly.call(times=1))
                later = await app.start(Weekly.call(times=0), delay="2d")
                await app.settled(handle)
                app.clock.advance(86_400)
                assert await app.settled(handle) == "waiting"
                assert len(app.witness.executed) == 2
                assert await app.settled(later) == "waiting"
                app.clock.advance(WEEK)
                assert await app.settled(handle) == "completed"
                await app.settled(later)
                assert {one.flow_id for one in app.witness.executed} == {handle.id, later.id}
                app.clock.advance(WEEK)
                assert await app.settled(later) == "completed"

    asyncio.run(test())


def test_a_flow_whose_time_has_come_waits_while_no_worker_is_there() -> None:
    async def test() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Weekly.call(times=1))
                await app.settled(handle)
                await app.kill()
                app.clock.advance(86_400)
                assert await app.settled(handle) == "waiting"
                app.revive()
                assert await app.settled(handle) == "waiting"
                assert len(app.witness.executed) == 2

    asyncio.run(test())


def test_a_flow_is_settled_only_after_its_failures_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    in_5_s = redrive.Policy(attempts=3, backoff=redrive.constant(5))

    @workflow(name="kit.Many")
    class Many(Workflow):
        async def run(self) -> None:
            await asyncio.gather(*(self.run_action(flaky(1), retry=in_5_s) for _ in range(300)))

    async def story() -> int:
        async with flow_app() as app:
            with app.clock.frozen():
                await app.settled(await app.start(Many.call()))
                return sum("; next attempt in" in one.getMessage() for one in caplog.records)

    with caplog.at_level(logging.INFO, logger="redrive"):
        assert asyncio.run(story()) == 300


@workflow(name="kit.Beside")
class Beside(Workflow):
    """Work in real time, and then a minute, beside an hour of waiting."""

    async def run(self, what: str) -> list[Any]:
        return list(await asyncio.gather(self.work(what), asyncio.sleep(3600)))

    async def work(self, what: str) -> str:
        call = plain(0.02) if what == "thread" else wait_really(0.02) if what == "loop" else take_long(20)
        found = await self.run_action(call, timeout=60)
        await asyncio.sleep(60)
        return found


@pytest.mark.parametrize("what", ["thread", "loop", "virtual"])
def test_time_does_not_jump_over_work_that_takes_real_time(what: str) -> None:
    outcome = run_flow(Beside.call(what))
    assert outcome.status == "completed"
    assert outcome.duration == 3600
    assert len(outcome.executed) == 1


def test_work_that_hangs_is_taken_to_its_timeout() -> None:
    @workflow(name="kit.Hangs")
    class Hangs(Workflow):
        async def run(self) -> str:
            try:
                await self.run_action(hang(), retry=RetryPolicy(attempts=2, jitter=0), timeout=timedelta(minutes=2))
            except AttemptTimeoutError:
                return "cut"
            return "unreached"

    outcome = run_flow(Hangs.call())
    assert outcome.result == "cut"
    # The attempt after a timeout gets half as much again.
    assert outcome.duration == pytest.approx(120 + 0.1 + 180)


def test_runs_are_the_same_every_time() -> None:
    @workflow(name="kit.Draws")
    class Draws(Workflow):
        async def run(self) -> list[str]:
            await flaky(2)
            return [str(workflow.uuid()), workflow.flow_id(), workflow.now().isoformat()]

    one, another = run_flow(Draws.call()), run_flow(Draws.call())
    assert one.result == another.result
    assert one.waits == another.waits


def test_a_killed_worker_leaves_everything_as_the_log_has_it() -> None:
    async def test() -> None:
        async with flow_app() as app:
            handle = await app.start(hang(), retry=RetryPolicy(attempts=3))
            await app.until(lambda: app.witness.executed)
            await app.kill()
            lines = await app.read_lines(handle.id)
            assert len(lines) == 1
            assert await handle.status() == "ready"
            app.clock.advance(3600)
            app.revive()
            await app.until(lambda: len(app.witness.executed) == 2)
            assert [one.attempt for one in app.witness.executed] == [1, 2]
            await handle.cancel()
            assert (await app.outcome(handle)).status == "cancelled"

    asyncio.run(test())


def test_a_flow_that_does_not_end_fails_the_test_with_its_log() -> None:
    async def test() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(hang()), within=0.1)

    with pytest.raises(AssertionError, match=r"(?s)the flow has not ended in time.*ItemStarted item=1 step=kit.hang"):
        asyncio.run(test())


def test_a_flow_in_which_nothing_happens_is_given_up_on_and_says_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.testing.flows.STALLED_AFTER", 0.2)
    says = r"(?s)nothing has happened for 0\.2 s: attempt 1 of kit\.hang \(item 1\) has not ended, and has no timeout\n"
    with pytest.raises(AssertionError, match=says):
        run_flow(hang())
    assert run_flow(Weekly.call(times=3)).result == "done"


def test_a_flow_that_did_not_complete_has_no_result_but_a_reason() -> None:
    with pytest.raises(ConnectionError, match="no answer"):
        _ = run_flow(FailsThrice.call()).result

    async def test() -> Any:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Weekly.call(times=1))
                await app.settled(handle)
                await handle.pause(by="ann", why="later")
                return (await app.outcome(handle)).result

    with pytest.raises(AssertionError, match="the flow has no result, it is paused: it is waiting\nflow "):
        asyncio.run(test())


def test_every_commit_is_a_crash_point_on_both_sides() -> None:
    runs = crash_everywhere(Weekly.call(times=2))
    commits = max(run.commit for run in runs)
    assert [(run.commit, run.side) for run in runs] == [
        (commit, side) for commit in range(1, commits + 1) for side in ("before", "after")
    ]
    assert all(run.crashed for run in runs)
    assert {run.outcome.result for run in runs} == {"done"}
    assert 0 < sum("[lost]" in str(run.outcome) for run in runs) < len(runs)


def test_a_difference_says_where_and_what_and_prints_the_log() -> None:
    left: list[int] = []

    @action(name="kit.careless")
    async def careless() -> str:
        """What a process remembers is gone after a crash: here it is found on the second attempt."""
        left.append(current_attempt().number)
        return "once" if left[-1] == 1 else "twice"

    with pytest.raises(AssertionError) as failed:
        crash_everywhere(careless())
    message = str(failed.value)
    assert message.startswith("killed right after commit 1 of 2, the outcome differs from the run without a crash")
    assert "without: completed with 'once'" in message
    assert "with:    completed with 'twice'" in message
    assert "[lost] -> retry in 0.1 s" in message


def test_a_story_may_do_more_than_run_a_flow(tmp_path: Path) -> None:
    async def story(app: FlowApp) -> list[str]:
        handles = [await app.start(flaky(1, f"job {number}")) for number in range(3)]
        return [await handle.result() for handle in handles]

    for run in crash_everywhere(story):
        assert run.outcome == ["job 0", "job 1", "job 2"]
    # One database for all runs: each has flows of its own.
    for run in crash_everywhere(story, store=f"sqlite:///{tmp_path}/all.db"):
        assert run.outcome == ["job 0", "job 1", "job 2"]


def test_a_store_that_is_away_comes_back_in_real_time() -> None:
    """Waiting for it must not wait for virtual time, which stands still while it is written to."""

    class Away(MemoryStore):
        refused = 0

        async def commit(self, lease: Lease, batch: Batch) -> None:
            if self.refused < 2:
                self.refused += 1
                raise StoreUnavailableError("out for lunch")
            await super().commit(lease, batch)

    async def test() -> None:
        store = Away()
        async with flow_app(store) as app:
            outcome = await app.outcome(await app.start(Weekly.call(times=1)), within=20)
        assert outcome.result == "done"
        assert store.refused == 2

    asyncio.run(test())


def test_an_alarm_that_fails_does_not_stop_the_clock() -> None:
    async def test() -> list[str]:
        rung: list[str] = []
        troubles: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context["exception"]))
        with virtual_clock() as clock:

            def fail() -> None:
                raise ValueError("in the alarm")

            clock.alarm(10, fail)
            clock.alarm(20, lambda: rung.append("rung"))
            taken_back = clock.alarm(15, lambda: rung.append("taken back"))
            taken_back()
            await clock.asleep(30)
        assert [str(trouble) for trouble in troubles] == ["in the alarm"]
        return rung

    assert asyncio.run(test()) == ["rung"]


def test_nothing_is_left_behind_by_a_worker_with_work_under_way() -> None:
    """The worker gives back what runs; another app goes on with it, and the attempt does not count."""
    store = MemoryStore()

    async def first() -> str:
        async with flow_app(store) as app:
            handle = await app.start(hang(), retry=RetryPolicy(attempts=1))
            await app.until(lambda: app.witness.executed)
            return handle.id

    async def second(flow_id: str) -> list[int]:
        async with flow_app(store) as app:
            await app.until(lambda: app.witness.executed)
            await app.handle(flow_id).cancel()
            await app.outcome(flow_id)
            return [one.attempt for one in app.witness.executed]

    flow_id = asyncio.run(first())
    assert asyncio.run(second(flow_id)) == [1]


@pytest.mark.parametrize("settings", [{}, {"lease": "30s"}])
def test_a_debugger_may_hold_a_test_up_and_a_lease_that_is_lost_is_told(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    @action(name="kit.look_around")
    async def look_around() -> str:
        # As if someone had been at a breakpoint meanwhile.
        monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: time.time() + 600))
        monkeypatch.setattr(SystemClock, "monotonic", staticmethod(lambda: time.monotonic() + 600))
        return "seen"

    async def test() -> str:
        async with flow_app(**settings) as app:
            return str(await (await app.start(look_around())).result(timeout=5))

    if settings:
        with pytest.raises(LeaseLostError):
            asyncio.run(test())
    else:
        assert asyncio.run(test()) == "seen"


def test_time_in_which_nothing_could_happen_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    @action(name="kit.break_here")
    async def break_here() -> str:
        await asyncio.sleep(0.02)
        time.sleep(0.3)  # noqa: ASYNC251 - as a debugger does
        return "seen"

    monkeypatch.setattr("redrive.testing.flows.STALLED_AFTER", 0.15)
    assert run_flow(break_here()).result == "seen"


def test_settings_of_the_worker_can_be_given() -> None:
    async def test() -> None:
        async with flow_app(concurrency=1) as app:
            handles = [await app.start(take_long(10)) for _ in range(3)]
            for handle in handles:
                await app.outcome(handle)
            assert app.clock.now == 30

    asyncio.run(test())
    with pytest.raises(TypeError):
        asyncio.run(_open(colour="red"))


async def _open(**settings: Any) -> None:
    async with flow_app(**settings):
        pass


def test_dead_letters_and_redrive_work_as_in_real_life() -> None:
    broken = [True]

    @action(name="kit.broken")
    async def mended() -> str:
        if broken[0]:
            raise redrive.Permanent("broken")
        return "mended"

    async def test() -> None:
        async with flow_app() as app:
            handle = await app.start(mended())
            assert (await app.outcome(handle)).status == "failed"
            broken[0] = False
            (letter,) = await app.dead_letters()
            await app.redrive(letter.flow_id, by="ann", why="mended")
            assert (await app.outcome(handle)).result == "mended"

    asyncio.run(test())


@action(name="kit.twice")
async def twice(n: int) -> int:
    return 2 * n


async def doubles(ctx: StageContext) -> dict[str, int]:
    return {"twice": 2 * ctx.data["n"]}


STARTED: list[tuple[Any, Any]] = [
    (Weekly.call(1), "done"),
    (twice(4), 8),
    (Graph("kit").step("twice", twice, outputs=["twice"]).call({"n": 4}), {"twice": 8}),
    (Script("kit", "fn main(n):\n    return @kit.twice(n=n)\n").call({"n": 4}), 8),
    (Pipeline("kit").with_stage("double", doubles).call(data={"n": 4}), {"double": {"twice": 8}}),
]


@pytest.mark.parametrize(("call", "result"), STARTED, ids=lambda one: getattr(one, "kind", type(one).__name__))
def test_whatever_makes_a_flow_can_be_run_and_crashed(call: Any, result: Any) -> None:
    assert run_flow(call).result == result
    if getattr(call, "kind", "") == "pipeline":
        # The attempt that is lost counts, and by default a stage has no other.
        redrive.register_pipeline(
            call.definition, [RetryInterceptor(retryable_errors=(redrive.errors.AttemptLostError,))]
        )
    crashed = crash_everywhere(call)
    assert [run.outcome.result for run in crashed] == [result] * len(crashed)
    assert any(run.crashed for run in crashed)


def test_what_makes_no_flow_cannot_be_crashed() -> None:
    with pytest.raises(TypeError, match=r"takes a call .*, not 5"):
        crash_everywhere(5)  # type: ignore[arg-type]  # that is the point
