"""Flows that cannot go on here are parked: everyone sees why, and they go on, or end, when someone says so."""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.flows.workflows.driver import CodeDriver
from redrive.testing import FlowApp, flow_app


@action(name="parked.note")
async def note(what: str) -> str:
    return what


def with_readable_hints() -> type[Workflow]:
    @workflow(name="Hinted")
    class Hinted(Workflow):
        async def run(self, what: str) -> str:
            first = await note(what)
            await asyncio.sleep(3600)
            return first + await note("!")

    return Hinted


def with_a_name_nobody_imported() -> None:
    @workflow(name="Hinted")
    class Hinted(Workflow):
        async def run(self, what: "Decimal") -> str:  # type: ignore[name-defined]  # noqa: F821 - that is the point
            return ""


def with_a_type_nobody_stores() -> None:
    @workflow(name="Hinted")
    class Hinted(Workflow):
        async def run(self, what: "complex | asyncio.Lock") -> str:
            return ""


@pytest.mark.parametrize("has_begun", [False, True], ids=["not begun", "begun"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (with_a_name_nobody_imported, "its type hints cannot be read: name 'Decimal' is not defined"),
        (with_a_type_nobody_stores, "cannot be stored"),
    ],
)
def test_hints_that_cannot_be_used_park_a_flow_until_they_are_mended(
    has_begun: bool, change: Callable[[], None], says: str
) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(with_readable_hints().call(what="hm"), delay=0 if has_begun else 3600)
                await app.settled(handle)
                change()
                app.clock.advance(3600)
            parked = await app.outcome(handle)
            assert parked.status == "parked"
            assert says in (parked.problem or "")
            await handle.resume()
            assert (await app.outcome(handle)).status == "parked"
            with_readable_hints()
            await handle.resume()
            assert (await app.outcome(handle)).result == "hm!"

    asyncio.run(story())


@pytest.mark.parametrize("force", [False, True], ids=["cancel", "by force"])
def test_a_flow_parked_for_its_hints_can_be_cancelled(force: bool) -> None:
    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                handle: redrive.Handle[str] = await app.start(with_readable_hints().call(what="hm"))
                await app.settled(handle)
                with_a_name_nobody_imported()
                app.clock.advance(3600)
            assert (await app.outcome(handle)).status == "parked"
            await handle.cancel(force=force)
            return (await app.outcome(handle)).status

    assert asyncio.run(story()) == "cancelled"


@action(name="parked.away", retry=redrive.RetryPolicy(attempts=9, backoff_seconds=3600))
async def away() -> str:
    raise ConnectionError("down")


@pytest.mark.parametrize("why_parked", ["the code changed", "the engine fails on the cancel"])
def test_a_parked_flow_that_is_cancelled_says_who_did_it_and_leaves_no_retry_behind(
    why_parked: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [away]

    @workflow(name="ParkedAndCancelled")
    class ParkedAndCancelled(Workflow):
        async def run(self) -> str:
            return await calls[0]()

    async def story() -> None:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(ParkedAndCancelled.call())
                await app.settled(handle)
                assert [row.step for row in await app.retries()] == ["parked.away"]
                if why_parked == "the code changed":
                    calls[0] = note_nothing
                    await handle.resume()
                    await app.outcome(handle)
                    assert await handle.status() == "parked"
                else:
                    where_the_engine_breaks(app, monkeypatch, "cancel")
                await handle.cancel(by="ann", why="ordered twice")
                assert (await app.outcome(handle)).status == "cancelled"
                assert (await app.explain(handle.id)).headline == "cancelled by ann (ordered twice)"
                assert await app.retries() == []

    asyncio.run(story())


@action(name="parked.nothing")
async def note_nothing() -> str:
    return ""


def where_the_engine_breaks(app: FlowApp, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    # The kit would stop at the first fault that it keeps.
    app.witness.faults = deque(maxlen=0)  # type: ignore[assignment]

    def breaks(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug of the engine")

    monkeypatch.setattr(CodeDriver, where, breaks)


@pytest.mark.parametrize("where", ["start", "completed", "fired", "replay"])
def test_a_flow_that_the_engine_fails_on_is_parked_and_can_be_resumed(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if its worker had died there, so that it can be replayed."""

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                has_begun = where in ("fired", "replay")
                handle = await app.start(with_readable_hints().call(what="hm"), delay=0 if has_begun else 1)
                await app.settled(handle)
                where_the_engine_breaks(app, monkeypatch, where)
                app.clock.advance(3600)
            parked = await app.outcome(handle)
            assert parked.status == "parked"
            assert "internal error: ZeroDivisionError('a bug of the engine')" in (parked.problem or "")
            await handle.resume()
            assert (await app.outcome(handle)).status == "parked"
            monkeypatch.undo()
            await handle.resume()
            assert (await app.outcome(handle)).result == "hm!"

    asyncio.run(story())


@pytest.mark.parametrize("where", ["start", "replay", "cancel"])
def test_a_flow_that_the_engine_fails_on_can_be_cancelled(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(with_readable_hints().call(what="hm"), delay=1 if where == "start" else 0)
                await app.settled(handle)
                where_the_engine_breaks(app, monkeypatch, where)
                if where == "cancel":
                    await handle.cancel()
                else:
                    app.clock.advance(3600)
            if where != "cancel":
                assert (await app.outcome(handle)).status == "parked"
                await handle.cancel(force=True)
            return (await app.outcome(handle)).status

    assert asyncio.run(story()) == "cancelled"


def test_an_attempt_of_a_flow_that_the_engine_fails_on_is_stopped_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []

    @action(name="parked.slow", retry="[LostAttempt -> retry: 3]")
    async def slow() -> str:
        happened.append("begun")
        if happened == ["begun"]:
            try:
                await asyncio.Event().wait()
            finally:
                happened.append("stopped")
        return "slow"

    @workflow(name="TwoAtOnce")
    class TwoAtOnce(Workflow):
        async def run(self) -> list[str]:
            return list(await asyncio.gather(slow(), note("quick")))

    async def story() -> None:
        async with flow_app() as app:
            where_the_engine_breaks(app, monkeypatch, "completed")
            handle = await app.start(TwoAtOnce.call())
            assert (await app.outcome(handle)).status == "parked"
            monkeypatch.undo()
            await handle.resume()
            assert (await app.outcome(handle)).result == ["slow", "quick"]

    asyncio.run(story())
    assert happened == ["begun", "stopped", "begun"]
