"""Flows that cannot go on here are parked: everyone sees why, and they go on, or end, when someone says so."""

import asyncio
from collections.abc import Callable

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.testing import flow_app


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
                handle = await app.start(with_readable_hints(), what="hm", delay=0 if has_begun else 3600)
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
                handle: redrive.Handle[str] = await app.start(with_readable_hints(), what="hm")
                await app.settled(handle)
                with_a_name_nobody_imported()
                app.clock.advance(3600)
            assert (await app.outcome(handle)).status == "parked"
            await handle.cancel(force=force)
            return (await app.outcome(handle)).status

    assert asyncio.run(story()) == "cancelled"
