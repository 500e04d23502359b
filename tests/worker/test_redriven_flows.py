"""Dead flows go back to work where they failed: what was done stays done, and what came of the failure is undone."""

import asyncio
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, current_attempt, report_of, workflow
from redrive.explain.parts import ItemEntry
from redrive.flows import replay
from redrive.flows.events import ItemAdded, Redriven
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app

RAN: list[str] = []
TOKENS: list[tuple[str, str]] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()
    TOKENS.clear()
    BROKEN.clear()


@action(name="redriven.do")
async def do(what: str) -> str:
    RAN.append(what)
    TOKENS.append((what, current_attempt().receipt_token))
    if what in BROKEN:
        raise redrive.Permanent(f"{what} is broken")
    return what


@action(name="redriven.hang")
async def hang() -> str:
    RAN.append("hang")
    await asyncio.Event().wait()
    return "unreached"


async def redriven(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
    """Mend what is broken, and put the flow back to work."""
    BROKEN.clear()
    assert await app.redrive(handle.id, by="ann", why="mended") == [handle.id]
    return await app.outcome(handle)


@workflow(name="redriven.Compensates")
class Compensates(Workflow):
    async def run(self) -> str:
        await do("reserve")
        try:
            charged = await do("charge")
        except redrive.Permanent:
            await do("cancel reservation")
            raise
        else:
            await do("ship")
        finally:
            await do("log")
        return charged


def test_compensation_is_undone_and_the_flow_goes_on_at_the_failed_item() -> None:
    BROKEN.add("charge")

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            handle = await app.start(Compensates.call())
            failed = await app.outcome(handle)
            return failed, await redriven(app, handle)

    failed, done = asyncio.run(story())
    assert RAN == ["reserve", "charge", "cancel reservation", "log", "charge", "ship", "log"]
    assert isinstance(failed.error, redrive.Permanent)
    assert done.result == "charge"
    assert done.lines[: len(failed.lines)] == failed.lines
    assert [line.event.by for line in done.lines if isinstance(line.event, Redriven)] == ["ann"]


def test_no_two_items_have_the_same_receipt_token_even_when_one_was_undone() -> None:
    BROKEN.add("charge")

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(Compensates.call())
            await app.outcome(handle)
            return await redriven(app, handle)

    done = asyncio.run(story())
    numbers = [line.event.item for line in done.lines if isinstance(line.event, ItemAdded)]
    assert len(numbers) == len(set(numbers))
    charge = {token for what, token in TOKENS if what == "charge"}
    assert len(charge) == 1
    # All others were carried out once each; "log" twice, as two items.
    assert len({token for _, token in TOKENS}) == len(RAN) - 1


def test_a_redrive_that_fails_again_can_be_redriven_again() -> None:
    BROKEN.add("charge")

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            handle = await app.start(Compensates.call())
            await app.outcome(handle)
            await app.redrive(handle.id, by="ann", why="hopeful")
            await app.until(lambda: RAN.count("log") == 2)
            again = await app.outcome(handle)
            return again, await redriven(app, handle)

    again, done = asyncio.run(story())
    assert again.status == "failed"
    assert done.result == "charge"
    assert RAN.count("reserve") == RAN.count("ship") == 1
    assert RAN.count("charge") == 3
    assert [item.attempt for item in done.history.items.values() if b"charge" in bytes(item.args)] == [3]


def test_siblings_keep_what_they_have_done_and_do_not_count_what_was_stopped() -> None:
    """With one attempt each: the sibling that the failure stopped has not used it up."""
    BROKEN.add("second")

    @action(name="redriven.sometimes")
    async def sometimes() -> str:
        RAN.append("sometimes")
        if BROKEN:
            await asyncio.Event().wait()
        return "done"

    @workflow(name="redriven.Gathers")
    class Gathers(Workflow):
        async def run(self) -> list[str]:
            once = RetryPolicy(attempts=1)
            return list(await asyncio.gather(self.first(), self.second(), self.run_action(sometimes(), retry=once)))

        async def first(self) -> str:
            return await do("1a") + await do("1b")

        async def second(self) -> str:
            await asyncio.sleep(60)
            return await self.run_action(do("second"), retry=RetryPolicy(attempts=1))

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            handle = await app.start(Gathers.call())
            failed = await app.outcome(handle)
            done = await redriven(app, handle)
            stories = (one for one in (await app.explain(handle.id)).timeline if isinstance(one, ItemEntry))
            shown.extend(
                attempt.outcome for one in stories if one.step == "redriven.sometimes" for attempt in one.attempts
            )
            return failed, done

    shown: list[str] = []
    failed, done = asyncio.run(story())
    assert shown == ["abandoned", "completed"]
    assert failed.status == "failed"
    assert done.result == ["1a1b", "second", "done"]
    assert {name: RAN.count(name) for name in RAN} == {"1a": 1, "1b": 1, "second": 2, "sometimes": 2}


def test_a_sibling_in_backoff_waits_on_and_is_in_the_retry_queue_again() -> None:
    BROKEN.add("late")

    @action(name="redriven.flaky")
    async def flaky() -> str:
        if current_attempt().number == 1:
            raise ConnectionError
        return "in the end"

    @workflow(name="redriven.Beside")
    class Beside(Workflow):
        async def run(self) -> list[str]:
            patient = RetryPolicy(attempts=2, backoff_seconds=3600)
            return list(await asyncio.gather(self.run_action(flaky(), retry=patient), self.late()))

        async def late(self) -> str:
            await asyncio.sleep(60)
            return await do("late")

    async def story() -> tuple[FlowOutcome, list[float]]:
        async with flow_app() as app:
            handle = await app.start(Beside.call())
            failed = await app.outcome(handle)
            assert await app.retries() == []
            BROKEN.clear()
            with app.clock.frozen():
                await app.redrive(handle.id, by="ann", why="mended")
                await app.until(lambda: RAN.count("late") == 2)
                await app.settled(handle)
                waits = [row.scheduled_at - failed.began for row in await app.retries()]
            return await app.outcome(handle), waits

    outcome, waits = asyncio.run(story())
    assert outcome.result == ["in the end", "late"]
    assert waits == [3600]
    assert outcome.duration == 3600


def test_a_bug_in_the_code_of_the_workflow_is_mended_and_the_flow_goes_on() -> None:
    def version(mended: bool) -> type[Workflow]:
        @workflow(name="redriven.Buggy")
        class Buggy(Workflow):
            async def run(self) -> list[str]:
                first = await do("first")
                second, third = await asyncio.gather(do("second"), do("third"))
                if not mended:
                    raise KeyError("a typo")
                return [first, second, third, await do("fourth")]

        return Buggy

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            handle = await app.start(version(mended=False).call())
            failed = await app.outcome(handle)
            version(mended=True)
            return failed, await redriven(app, handle)

    failed, done = asyncio.run(story())
    assert isinstance(failed.error, KeyError)
    assert done.result == ["first", "second", "third", "fourth"]
    assert RAN == ["first", "second", "third", "fourth"]


def test_a_bug_at_the_very_start_is_mended_too() -> None:
    def version(mended: bool) -> type[Workflow]:
        @workflow(name="redriven.BuggyFromTheStart")
        class Buggy(Workflow):
            async def run(self) -> str:
                began = workflow.now()
                if not mended:
                    raise KeyError("a typo")
                await do("first")
                await asyncio.sleep(3600)
                assert began.year == 2030
                return f"{(workflow.now() - began).total_seconds():g}"

        return Buggy

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(version(mended=False).call())
            await app.outcome(handle)
            version(mended=True)
            return await redriven(app, handle)

    assert asyncio.run(story()).result == "3600"


def test_the_mend_may_ask_for_other_things_and_what_nobody_asks_for_any_more_is_cancelled() -> None:
    """In the turn of the bug the old code had started two items; the new one wants only one of them, and another."""

    def version(mended: bool) -> type[Workflow]:
        @workflow(name="redriven.Rewritten")
        class Rewritten(Workflow):
            async def run(self) -> list[str]:
                await do("first")
                if not mended:
                    tasks = [asyncio.ensure_future(hang()), asyncio.ensure_future(do("kept"))]
                    await asyncio.sleep(0)
                    raise KeyError(f"a typo with {len(tasks)} tasks")
                await asyncio.sleep(60)
                return list(await asyncio.gather(do("kept"), do("new")))

        return Rewritten

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(version(mended=False).call())
            await app.outcome(handle)
            version(mended=True)
            return await redriven(app, handle)

    outcome = asyncio.run(story())
    assert outcome.result == ["kept", "new"]
    assert RAN.count("hang") <= 1
    states = {bytes(item.args).decode(): item.state for item in outcome.history.items.values()}
    assert states["{}"] == "cancelled"


def test_a_mend_with_patched_takes_effect_for_the_flow_that_is_redriven() -> None:
    def version(mended: bool) -> type[Workflow]:
        @workflow(name="redriven.PatchedMend")
        class PatchedMend(Workflow):
            async def run(self) -> str:
                await do("first")
                if mended and workflow.patched("mend"):
                    found = await do("new way")
                else:
                    raise KeyError("the old way")
                await asyncio.sleep(3600)
                return found

        return PatchedMend

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(version(mended=False).call())
            await app.outcome(handle)
            version(mended=True)
            return await redriven(app, handle)

    assert asyncio.run(story()).result == "new way"


def test_the_report_of_a_redriven_item_counts_on() -> None:
    @workflow(name="redriven.Fails")
    class Fails(Workflow):
        async def run(self) -> str:
            return await do("work")

    BROKEN.add("work")

    async def story() -> list[Any]:
        async with flow_app() as app:
            handle = await app.start(Fails.call())
            reports = [report_of((await app.outcome(handle)).error)]
            await app.redrive(handle.id, by="ann", why="hopeful")
            await app.until(lambda: len(RAN) == 2)
            reports.append(report_of((await app.outcome(handle)).error))
            letters = await app.dead_letters()
            return [*reports, letters[0].attempts, letters[0].state]

    first, second, attempts, state = asyncio.run(story())
    assert [record.number for record in first.attempts] == [1]
    assert second.attempts[-1].number == 2
    assert second.made == 2
    assert (attempts, state) == (2, "dead")


def test_heartbeat_details_survive_every_way_to_the_next_attempt() -> None:
    """A retry after a long wait, a lost worker, and a redrive: each attempt gets what the one before it left last."""
    seen: list[Any] = []

    @action(name="redriven.beats")
    async def beats() -> str:
        attempt = current_attempt()
        seen.append(attempt.last_details)
        for part in range(3):
            attempt.heartbeat([attempt.number, part])
        if attempt.number == 1:
            raise ConnectionError
        if attempt.number == 2:
            await asyncio.Event().wait()
        if attempt.number == 3:
            raise redrive.Permanent("broken")
        return "done"

    @workflow(name="redriven.Beats")
    class Beats(Workflow):
        async def run(self) -> str:
            return await self.run_action(beats(), retry=RetryPolicy(attempts=9, backoff_seconds=3600))

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(Beats.call())
            await app.until(lambda: len(seen) == 2)
            beat = None
            while beat is None:
                beat = next(iter(await app.store.read_heartbeats([handle.id])), None)
                await asyncio.sleep(0.001)
            await app.kill()
            app.revive()
            await app.outcome(handle)
            done = await redriven(app, handle)
            assert await app.store.read_heartbeats([handle.id]) == []
            return done

    assert asyncio.run(story()).result == "done"
    assert seen[:2] == [None, [1, 2]]
    assert seen[2][0] == 2, "the lost attempt's heartbeat, as far as it was written"
    assert seen[3] == [3, 2]


def test_a_redriven_flow_survives_a_crash_anywhere() -> None:
    async def story(app: FlowApp) -> Any:
        BROKEN.add("charge")
        handle = await app.start(Compensates.call())
        await app.outcome(handle)
        done = await redriven(app, handle)
        return done.result

    for run in crash_everywhere(story):
        assert run.outcome == "charge"


@action(name="redriven.stopped")
async def stopped() -> str:
    RAN.append("stopped")
    if BROKEN:
        await asyncio.Event().wait()
    return "done"


@action(name="redriven.waits")
async def waits() -> str:
    if current_attempt().number == 1:
        raise ConnectionError
    return "in the end"


@workflow(name="redriven.Groups")
class Groups(Workflow):
    async def run(self, ends: bool) -> list[str]:
        tasks: list[asyncio.Task[str]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [
                    group.create_task(self.run_action(stopped(), retry=RetryPolicy(attempts=1))),
                    group.create_task(self.run_action(waits(), retry=RetryPolicy(attempts=2, backoff_seconds=3600))),
                    group.create_task(self.second()),
                ]
        except* redrive.Permanent:
            if ends:
                raise
            await asyncio.sleep(86400)
        return [task.result() for task in tasks]

    async def second(self) -> str:
        await asyncio.sleep(60)
        return await do("second")


@pytest.mark.parametrize("ends", [True, False], ids=["failed flow", "flow that goes on"])
def test_a_worker_that_dies_between_a_redrive_and_what_comes_of_it_leaves_that_to_the_next(
    monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A long log is replayed in pieces, and the redrive is durable before the last of them."""
    BROKEN.add("second")
    monkeypatch.setattr(replay, "LINES_PER_CHUNK", 1)

    async def story() -> tuple[FlowOutcome, list[float]]:
        async with flow_app() as app:
            handle = await app.start(Groups.call(ends))
            with app.clock.frozen():
                began = app.now()
            await app.until(lambda: "second" in RAN)
            with app.clock.frozen():
                await app.settled(handle)
                await app.kill()
                BROKEN.clear()
                if ends:
                    await app.redrive(handle.id, by="ann", why="mended")
                else:
                    await app.reset_step(handle.id, "redriven.do", by="ann", why="mended")
                app.crash_at(1, "after")
                app.revive()
                await app.until(lambda: RAN.count("second") == 2)
                assert app.witness.crash_at is None
                await app.settled(handle)
                rows = [row.scheduled_at - began for row in await app.retries()]
            return await app.outcome(handle), rows

    done, rows = asyncio.run(story())
    assert done.result == ["done", "in the end", "second"]
    assert {name: RAN.count(name) for name in RAN} == {"stopped": 2, "second": 2}
    assert rows == [3600]


GATE: list[asyncio.Event] = []


@action(name="redriven.fail_late")
async def fail_late() -> str:
    RAN.append("late")
    await GATE[0].wait()
    if "late" in BROKEN:
        raise redrive.Permanent("late is broken")
    return "late"


@workflow(name="redriven.FailsLate")
class FailsLate(Workflow):
    async def run(self) -> str:
        return await fail_late()


def test_a_flow_that_failed_while_it_was_paused_runs_when_it_is_redriven() -> None:
    BROKEN.add("late")

    async def story() -> FlowOutcome:
        GATE[:] = [asyncio.Event()]
        async with flow_app() as app:
            handle = await app.start(FailsLate.call())
            await app.until(lambda: RAN == ["late"])
            await handle.pause()
            await app.until(lambda: app.witness.commits >= 2)
            GATE[0].set()
            assert (await app.outcome(handle)).status == "failed"
            return await redriven(app, handle)

    done = asyncio.run(story())
    assert (done.status, done.result) == ("completed", "late")
