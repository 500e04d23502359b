"""Updates are validated before they are accepted, and answer with their result or their failure."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.signals.approvals import ship

import redrive
from redrive import Workflow, workflow
from redrive.errors import FlowFinishedError, SerializationError, SignalRefusedError, UpdateTimeoutError
from redrive.explain.explanation import explain_text
from redrive.flows.message_events import UpdateAccepted, UpdateCompleted, UpdateRefused
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app

pytestmark = pytest.mark.promise("E3")


@workflow(name="updates.Order")
class Order(Workflow):
    def __init__(self) -> None:
        self.address = ""
        self.done = False
        self.count = 0

    async def run(self) -> str:
        await workflow.wait_for(lambda: self.done)
        return self.address

    @redrive.signal
    def close(self) -> None:
        self.done = True

    @redrive.update
    async def set_address(self, address: str) -> str:
        before, self.address = self.address, await ship("label", address)
        return before

    @set_address.validator
    def check_address(self, address: str) -> None:
        if not address:
            raise ValueError("an address is needed")

    @redrive.update(name="add")
    def plus(self, n: int) -> int:
        self.count += n
        return self.count

    @redrive.update
    def fails(self) -> None:
        raise KeyError("no such thing")

    @redrive.update
    async def hangs(self) -> None:
        await workflow.wait_for(lambda: False)

    @redrive.update
    def cheated(self) -> None: ...

    @cheated.validator
    def cheats(self) -> None:
        self.count = 99


def test_an_update_answers_with_its_result_or_its_error(address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Order.call())
                assert await handle.update("set_address", address="Bonn") == ""
                assert await handle.update(Order.set_address, "Ulm") == "label shipped for Bonn"
                assert [await handle.update("add", n=n) for n in (1, 2)] == [1, 3]
                with pytest.raises(KeyError, match="no such thing"):
                    await handle.update("fails")
                await handle.signal("close")
                return await app.outcome(handle)

    assert asyncio.run(story()).result == "label shipped for Ulm"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("set_address", {"address": ""}, "the update 'set_address' was refused: ValueError: an address is needed"),
        ("set_adress", {"address": "x"}, "has no update 'set_adress'; did you mean 'set_address'"),
        ("cheated", {}, "the validator 'cheated' changes what the workflow knows; it may only read"),
    ],
)
def test_an_update_that_is_refused_says_why_and_changes_nothing(name: str, arguments: Any, says: str) -> None:
    async def story() -> tuple[FlowOutcome, str]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Order.call())
                with pytest.raises(SignalRefusedError, match=says):
                    await handle.update(name, **arguments)
                await handle.signal("close")
                outcome = await app.outcome(handle)
                return outcome, explain_text(await app.explain(handle.id))

    outcome, text = asyncio.run(story())
    kinds = {type(line.event) for line in outcome.lines}
    assert UpdateRefused in kinds
    assert UpdateAccepted not in kinds
    assert f"update {name} was refused" in text


def test_arguments_of_another_type_are_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        async with flow_app() as app:
            handle = await app.start(Order.call())
            with pytest.raises(SerializationError, match="update add: argument n"):
                await handle.update("add", n="x")
            with pytest.raises(TypeError, match=r"marked with @redrive\.update"):
                await handle.update(Order.run)  # type: ignore[arg-type]

    asyncio.run(story())


def test_an_update_of_a_flow_that_ends_or_has_ended_says_so() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Order.call())
                waiting = asyncio.ensure_future(handle.update("hangs"))
                while not any(isinstance(one.event, UpdateAccepted) for one in await app.read_lines(handle.id)):
                    await asyncio.to_thread(time.sleep, 0.001)
                await handle.signal("close")
                with pytest.raises(FlowFinishedError, match="completed, and has not answered the update"):
                    await waiting
                with pytest.raises(FlowFinishedError, match="is completed"):
                    await handle.update("add", n=1)

    asyncio.run(story())


@pytest.mark.parametrize("sync", [False, True])
def test_an_update_that_nobody_answers_in_time_says_so(sync: bool, tmp_path: Path) -> None:
    says = "has not answered the update 'add' after 0.02 s; it may still take effect"
    address = f"sqlite:///{tmp_path}/app.db"
    if sync:
        with redrive.open_sync(address, worker=False) as app, pytest.raises(UpdateTimeoutError, match=says):
            app.start(Order.call()).update("add", n=1, timeout="20ms")
        return

    async def story() -> None:
        async with redrive.open(address, worker=False) as app:
            handle = await app.start(Order.call())
            with pytest.raises(UpdateTimeoutError, match=says):
                await handle.update("add", n=1, timeout="20ms")
            with pytest.raises(TimeoutError, match=says):
                await app.update(handle.id, "add", {"n": 1}, timeout=0.02)

    asyncio.run(story())


def test_an_update_before_the_flow_begins_is_answered_when_it_does() -> None:
    async def story() -> Any:
        async with flow_app() as app:
            handle = await app.start(Order.call(), delay="1h")
            return await handle.update("add", n=5)

    assert asyncio.run(story()) == 5


async def a_life_with_updates(app: FlowApp) -> Any:
    handle = await app.start(Order.call())
    answers = [await handle.update("add", n=1), await handle.update("set_address", address="Bonn")]
    answers.append(await handle.update("add", n=2))
    await handle.signal("close")
    outcome = await app.outcome(handle)
    answered = [line.event.id for line in outcome.lines if isinstance(line.event, UpdateCompleted)]
    return answers, outcome.result, len(answered), len(set(answered))


def test_killed_at_every_commit_each_update_takes_effect_once() -> None:
    runs = crash_everywhere(a_life_with_updates)
    assert any(run.crashed for run in runs)
    assert all(run.outcome == ([1, "", 3], "label shipped for Bonn", 3, 3) for run in runs)
