"""Actions of workflows and jobs that are completed by hand."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, Workflow, action, workflow
from redrive.errors import UnknownStepError
from redrive.explain.explanation import explain_text
from redrive.flows.events import CompletionRefused, Redriven, Resumed
from redrive.flows.graphs.outputs import OutputError
from redrive.stores.records import DeadQuery
from redrive.testing import flow_app


@action(name="counted by hand", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
async def count(of: str) -> int:
    raise ConnectionError("down")


@workflow(name="CountedByHand")
class Counts(Workflow):
    async def run(self) -> int:
        return 1 + await count("sheep")


@pytest.mark.promise("T10")
@pytest.mark.parametrize("is_job", [False, True], ids=["workflow", "job"])
def test_a_result_given_by_hand_is_one_that_the_action_may_return(is_job: bool) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flow: Any = await (app.start(count("sheep")) if is_job else app.start(Counts.call()))
                await app.settled(flow)
                before = await app.log(flow.id)
                for unfit in ({"n": "many"}, "7", None):
                    with pytest.raises(OutputError, match=r"^step counted by hand: .*Expected `int`, got `"):
                        await app.complete_step(flow.id, "counted by hand", unfit, by="ann", why="went there")
                assert await app.log(flow.id) == before
                await app.complete_step(flow.id, "counted by hand", 7, by="ann", why="went there")
            assert (await app.outcome(flow)).result == (7 if is_job else 8)

    asyncio.run(story())


@workflow(name="ResolvedByHand")
class GoesOnWithout(Workflow):
    async def run(self) -> str:
        counted: int | None = await count("sheep")
        return "nothing was counted" if counted is None else str(counted)


@pytest.mark.promise("T10")
def test_an_action_resolved_by_hand_gives_nothing_whatever_it_should_return() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(GoesOnWithout.call())
                await app.settled(flow)
                await app.resolve_step(flow.id, "counted by hand", by="ann", why="does not matter")
            assert (await app.outcome(flow)).result == "nothing was counted"

    asyncio.run(story())


@workflow(name="CountsThrice")
class CountsThrice(Workflow):
    async def run(self) -> list[int]:
        return list(await asyncio.gather(count("sheep"), count("goats"), count("sheep")))


@pytest.mark.promise("T10")
def test_calls_of_the_same_action_are_told_apart_by_their_order() -> None:
    async def story() -> list[int]:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(CountsThrice.call())
                await app.settled(flow)
                await app.complete_step(flow.id, "counted by hand", 2, index=1, by="ann", why="went there")
                items = (await app.steps_of(flow.id))[0].items
                while items[1].state != "completed":
                    await asyncio.sleep(0)
                    items = (await app.steps_of(flow.id))[0].items
                assert [(one.index, one.state) for one in items] == [(0, "waiting"), (1, "completed"), (2, "waiting")]
                with pytest.raises(UnknownStepError, match=r"several unfinished items; name one: 0, 2$"):
                    await app.complete_step(flow.id, "counted by hand", 3, by="ann", why="went there")
                for index in (2, 0):
                    await app.complete_step(flow.id, "counted by hand", index + 1, index=index, by="ann", why="again")
            result: list[int] = (await app.outcome(flow)).result
            return result

    assert asyncio.run(story()) == [1, 2, 3]


BROKEN: set[str] = set()
RAN: list[str] = []


@action(name="done by hand", retry=RetryPolicy(attempts=1))
async def do(what: str) -> str:
    RAN.append(what)
    if what in BROKEN:
        raise redrive.Permanent(f"{what} is broken")
    return what


@workflow(name="EndedByAnother")
class EndedByAnother(Workflow):
    async def run(self, how: str) -> str:
        if how == "a step beside it":
            return " ".join(await asyncio.gather(self.first(), do("second")))
        first = await self.first()
        if how == "its own code" and first == "nothing":
            raise ValueError("nothing came of the first step")
        return f"{first} {await do('second')}"

    async def first(self) -> str:
        try:
            return await do("first") or "empty"
        except redrive.Permanent:
            return "nothing"


@pytest.mark.promise("T10")
@pytest.mark.parametrize("verb", ["reset", "complete", "resolve"])
@pytest.mark.parametrize("how", ["a later step", "a step beside it", "its own code"])
def test_a_failed_step_that_its_flow_had_dealt_with_is_settled_though_another_one_ended_the_flow(
    how: str, verb: str
) -> None:
    RAN.clear()
    BROKEN.update(["first", "second"])

    async def story() -> str:
        async with flow_app() as app:
            flow = await app.start(EndedByAnother.call(how))
            assert (await app.outcome(flow)).status == "failed"
            BROKEN.clear()
            outputs = {"outputs": "on foot"} if verb == "complete" else {}
            tell: Any = getattr(app, f"{verb}_step")
            await tell(flow.id, "done by hand", **outputs, index=0, by="ann", why="went there")
            result: str = (await app.outcome(flow)).result
            return result

    first = {"reset": "first", "complete": "on foot", "resolve": "empty"}[verb]
    assert asyncio.run(story()) == f"{first} second"
    assert RAN.count("first") == (2 if verb == "reset" else 1)


@workflow(name="FallsBack")
class FallsBack(Workflow):
    async def run(self) -> str:
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(count("sheep"))
                done = both.create_task(do("first"))
        except ExceptionGroup:
            return str(await count("goats"))
        return done.result()


@pytest.mark.promise("R6")
def test_the_retry_queue_shows_what_waits_after_a_step_was_settled_by_hand(address: str) -> None:
    BROKEN.add("first")

    async def story() -> None:
        async with flow_app(address) as app:

            async def rows(expected: dict[int, float]) -> None:
                """By item, the seconds until its next attempt."""
                found: dict[int, float] = {}
                for _ in range(1000):
                    found = {row.item: row.scheduled_at - app.now() for row in await app.retries()}
                    if found == expected:
                        break
                    await asyncio.sleep(0.001)
                assert found == expected

            with app.clock.frozen():
                flow = await app.start(FallsBack.call())
                await rows({3: 3600.0})
                app.clock.advance(100)
                await app.complete_step(flow.id, "done by hand", "on foot", by="ann", why="went there")
                await rows({1: 3500.0})
                await flow.pause()
                await app.reset_step(flow.id, "counted by hand", by="ann", why="they are back")
                await rows({1: 0.0})
                await flow.cancel()
                await rows({})

    asyncio.run(story())


@pytest.mark.promise("T10")
@pytest.mark.parametrize("verb", ["reset", "complete", "resolve"])
@pytest.mark.parametrize("state", ["failed", "failed and dealt with", "waiting", "waiting in a flow that failed"])
def test_what_is_said_of_a_step_while_the_code_does_not_fit_is_done_once_it_does(state: str, verb: str) -> None:
    RAN.clear()
    BROKEN.add("other")
    if state.startswith("failed"):
        BROKEN.add("order")

    @action(name="done in time", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
    async def wait_for(what: str) -> str:
        RAN.append(what)
        if "other" in BROKEN:
            raise ConnectionError("down")
        return what

    def deploy(fits: bool) -> type[Workflow]:
        @workflow(name="DoesNotFit")
        class DoesNotFit(Workflow):
            async def run(self, state: str) -> str:
                if not fits:
                    await do("something else")
                asked = asyncio.create_task(do("order") if state.startswith("failed") else wait_for("order"))
                if state == "waiting in a flow that failed":
                    await asyncio.sleep(5)
                    await do("other")
                try:
                    return await asked or "nothing"
                except redrive.Permanent:
                    if state == "failed":
                        raise
                    return await wait_for("other")

        return DoesNotFit

    async def story() -> str:
        async with flow_app() as app:
            flow = await app.start(deploy(fits=True).call(state))
            with app.clock.frozen():
                await app.settled(flow)
                if state == "waiting in a flow that failed":
                    app.clock.advance(5)
                    assert (await app.outcome(flow)).status == "failed"
                await app.kill()
                app.revive()
                deploy(fits=False)
                if state == "waiting":
                    await flow.resume()
                BROKEN.clear()
                outputs = {"outputs": "on foot"} if verb == "complete" else {}
                step = "done by hand" if state.startswith("failed") else "done in time"
                tell: Any = getattr(app, f"{verb}_step")
                await tell(flow.id, step, **outputs, by="ann", why="went there")
                assert (await app.outcome(flow)).status == "parked"
                if state == "waiting":
                    due = [row.scheduled_at - app.now() for row in await app.retries()]
                    assert due == ([0.0] if verb == "reset" else [])
                await app.kill()
                app.revive()
            deploy(fits=True)
            await flow.resume(by="ann", why="the code is back")
            result: str = (await app.outcome(flow)).result
            return result

    assert asyncio.run(story()) == {"reset": "order", "complete": "on foot", "resolve": "nothing"}[verb]
    assert RAN.count("order") == (2 if verb == "reset" else 1)


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redrive.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own


@pytest.mark.promise("T10")
@pytest.mark.parametrize("is_job", [False, True], ids=["workflow", "job"])
def test_a_result_that_nobody_could_check_is_refused_by_the_worker_that_can(tmp_path: Path, is_job: bool) -> None:
    """The command line does not know the program's actions."""
    address = f"sqlite:///{tmp_path}/app.db"

    async def story() -> None:
        async with redrive.open(address) as app:
            flow: Any = await (app.start(count("sheep")) if is_job else app.start(Counts.call()))
            told = ("flows", "complete", flow.id, "counted by hand", "--why", "went there", "--store", address)
            assert (await asyncio.to_thread(cli, *told, "--outputs", '"many"')).returncode == 0
            refused: list[CompletionRefused] = []
            async with asyncio.timeout(20):
                while not refused:
                    lines = await app.log(flow.id)
                    refused = [line.event for line in lines if isinstance(line.event, CompletionRefused)]
                    await asyncio.sleep(0.001)
            assert "the action does not return such a result: Expected `int`, got `str`" in refused[0].why
            assert "the action does not return such a result" in explain_text(await app.explain(flow.id))
            assert (await asyncio.to_thread(cli, *told, "--outputs", "7")).returncode == 0
            assert await flow.result(timeout=20) == (7 if is_job else 8)

    asyncio.run(story())


@pytest.mark.promise("T10")
@pytest.mark.parametrize(("by", "name"), [("ann", "ann"), ("", "someone")])
def test_the_log_says_who_gave_a_result_that_was_refused(by: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a process that does not know the action.
    monkeypatch.setattr("redrive.client.step_resolution.misfit", lambda *_: "")

    async def story() -> list[str]:
        async with flow_app() as app:
            with app.clock.frozen():
                flow = await app.start(Counts.call())
                await app.settled(flow)
                await app.complete_step(flow.id, "counted by hand", "many", by=by, why="went there")
                await app.settled(flow)
                events = [line.event for line in await app.log(flow.id)]
        return [event.why for event in events if isinstance(event, CompletionRefused)]

    [why] = asyncio.run(story())
    assert why.startswith(f"the result given by {name} was refused: ")


@action(name="counted once", retry=RetryPolicy(attempts=1))
async def count_once() -> int:
    RAN.append("count")
    raise redrive.Permanent("no sheep")


def test_a_failed_step_is_not_tried_because_what_was_said_of_it_cannot_be(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/app.db"
    RAN.clear()

    async def story() -> None:
        async with redrive.open(address) as app:
            flow = await app.start(count_once())
            with pytest.raises(redrive.Permanent):
                await flow.result(timeout=20)
            told = ("flows", "complete", flow.id, "counted once", "--why", "went there", "--store", address)
            assert (await asyncio.to_thread(cli, *told, "--outputs", '"many"')).returncode == 0
            async with asyncio.timeout(20):
                while not (dead := await app.dead_letters(DeadQuery(state="dead"))):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            assert "the action does not return such a result: Expected `int`, got `str`" in dead[0].message
            await app.complete_step(flow.id, "counted once", 7, by="ann", why="went there")
            assert await flow.result(timeout=20) == 7

    asyncio.run(story())
    assert RAN == ["count"]


def deploy_shares(fits: bool) -> type[Workflow]:
    @workflow(name="Shares")
    class Shares(Workflow):
        """One branch cancels what the other's failure made useless, at a turn of its own."""

        async def run(self) -> str:
            if not fits:
                await do("something else")
            failed = False
            waits = asyncio.create_task(count("sheep"))

            async def one() -> str:
                nonlocal failed
                try:
                    return await do("first")
                except redrive.Permanent:
                    failed = True
                    return "none"

            async def two() -> str:
                await asyncio.sleep(5)
                if failed:
                    waits.cancel()
                    return str(await count("goats"))
                return str(await waits)

            return " ".join(await asyncio.gather(one(), two()))

    return Shares


@pytest.mark.promise("T10")
@pytest.mark.parametrize("fits", [True, False], ids=["the code fits", "the code fits later"])
def test_what_goes_on_after_a_reset_is_told_as_open_though_the_flows_code_had_cancelled_it(fits: bool) -> None:
    BROKEN.add("first")

    async def story() -> str:
        async with flow_app() as app:
            flow = await app.start(deploy_shares(fits=True).call())
            with app.clock.frozen():
                await app.settled(flow)
                app.clock.advance(5)
                while len(await app.retries()) != 1 or len(app.witness.executed) != 3:  # noqa: ASYNC110 - they are in a store
                    await asyncio.sleep(0)
                BROKEN.clear()
                if not fits:
                    await app.kill()
                    app.revive()
                    deploy_shares(fits=False)
                await app.reset_step(flow.id, "done by hand", by="ann", why="mended")
                if not fits:
                    assert (await app.outcome(flow)).status == "parked"
                    deploy_shares(fits=True)
                    await flow.resume(by="ann", why="the code is back")
                states: dict[str, list[str]] = {}
                while states.get("done by hand") != ["completed"]:
                    await asyncio.sleep(0)
                    states = {step.name: [item.state for item in step.items] for step in await app.steps_of(flow.id)}
                assert states == {"counted by hand": ["waiting", "abandoned"], "done by hand": ["completed"]}
                await app.complete_step(flow.id, "counted by hand", 7, index=0, by="ann", why="went there")
            result: str = (await app.outcome(flow)).result
            return result

    assert asyncio.run(story()) == "first 7"


@pytest.mark.promise("T10")
@pytest.mark.parametrize("fits", [True, False], ids=["the code fits", "the code fits later"])
def test_all_that_is_said_at_once_of_the_failed_steps_of_a_failed_flow_is_done(fits: bool) -> None:
    RAN.clear()
    BROKEN.update(["first", "second"])

    def deploy(fits: bool) -> type[Workflow]:
        @workflow(name="FailsTwice")
        class FailsTwice(Workflow):
            async def run(self) -> str:
                if not fits:
                    await do("something else")
                one, other = await asyncio.gather(do("first"), do("second"), return_exceptions=True)
                if isinstance(one, Exception):
                    raise one
                return f"{one} {other}"

        return FailsTwice

    async def story() -> str:
        async with flow_app() as app:
            flow = await app.start(deploy(fits=True).call())
            assert (await app.outcome(flow)).status == "failed"
            await app.kill()
            deploy(fits)
            for index, outputs in enumerate(("on foot", "by boat")):
                await app.complete_step(flow.id, "done by hand", outputs, index=index, by="ann", why="went there")
            app.revive()
            if not fits:
                assert (await app.outcome(flow)).status == "parked"
                told = explain_text(await app.explain(flow.id))
                assert "done by hand (item 2) is completed manually" in told
                assert "tried again" not in told
                deploy(fits=True)
                await flow.resume(by="ann", why="the code is back")
            result: str = (await app.outcome(flow)).result
            return result

    assert asyncio.run(story()) == "on foot by boat"
    BROKEN.clear()
    assert RAN == ["first", "second"]


@pytest.mark.promise("T10")
@pytest.mark.parametrize("when", ["while it is parked", "when it goes on"])
def test_what_waits_beside_a_redrive_that_the_code_did_not_fit_goes_on_with_it(when: str) -> None:
    def deploy(version: str) -> type[Workflow]:
        @workflow(name="WaitsBeside")
        class WaitsBeside(Workflow):
            async def run(self) -> str:
                if version == "does not fit":
                    await do("something else")
                waits = asyncio.create_task(count("sheep"))
                first = await do("first")
                await asyncio.sleep(5)
                if version == "fails":
                    raise KeyError("a mistake in its own code")
                return f"{first} {await do('second')} {await waits}"

        return WaitsBeside

    async def story() -> str:
        async with flow_app() as app:
            flow = await app.start(deploy("fails").call())
            assert (await app.outcome(flow)).status == "failed"
            with app.clock.frozen():
                deploy("does not fit")
                await app.redrive(flow.id, by="ann", why="mended")
                assert (await app.outcome(flow)).status == "parked"
                if when == "while it is parked":
                    await app.complete_step(flow.id, "counted by hand", 7, by="ann", why="went there")
                    while await app.store.count_unread(flow.id):  # noqa: ASYNC110 - it is in a store
                        await asyncio.sleep(0)
                deploy("fits")
                await flow.resume(by="ann", why="the code is back")
                if when == "when it goes on":
                    assert await app.settled(flow) == "waiting"
                    assert [row.item for row in await app.retries()] == [2]
                    await app.complete_step(flow.id, "counted by hand", 7, by="ann", why="went there")
            outcome = await app.outcome(flow)
            assert [line.event.why for line in outcome.lines if isinstance(line.event, Resumed)] == ["the code is back"]
            result: str = outcome.result
            return result

    assert asyncio.run(story()) == "first second 7"


@pytest.mark.promise("T10")
def test_what_is_said_of_a_step_that_completed_meanwhile_does_not_reopen_a_failed_flow() -> None:
    told: list[Any] = []

    @action(name="done while it is settled")
    async def is_settled() -> None:
        app, flow = told
        await app.complete_step(flow.id, "done while it is settled", None, by="ann", why="went there")

    @workflow(name="FailsBesides")
    class FailsBesides(Workflow):
        async def run(self) -> None:
            await is_settled()
            raise ValueError("another thing")

    async def story() -> None:
        async with flow_app() as app:
            flow = await app.start(FailsBesides.call(), delay=1)
            told[:] = app, flow
            assert (await app.outcome(flow)).status == "failed"
            while await app.store.count_unread(flow.id):  # noqa: ASYNC110 - it is in a store
                await asyncio.sleep(0.001)
            assert (await app.outcome(flow)).status == "failed"
            assert [letter.state for letter in await app.dead_letters(DeadQuery(state=None))] == ["dead"]
            assert not [line for line in await app.log(flow.id) if isinstance(line.event, Redriven)]

    asyncio.run(story())
