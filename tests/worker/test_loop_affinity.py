"""Where an app may be used: in the event loop that opened it."""

import asyncio
from pathlib import Path

import pytest

import redrive
from redrive import Workflow, action, workflow

APPS: list[redrive.App] = []


@action(name="one_loop.double")
async def double(number: int) -> int:
    return 2 * number


@workflow(name="one_loop.StartsOthers")
class StartsOthers(Workflow):
    async def run(self) -> int:
        return await (await APPS[-1].start(double(4))).result()


@workflow(name="one_loop.Opens")
class Opens(Workflow):
    async def run(self, address: str) -> None:
        async with redrive.open(address):
            pass


@pytest.mark.promise("A13")
def test_the_code_of_a_flow_cannot_use_an_app_which_would_start_flows_anew_at_each_replay(address: str) -> None:
    async def story() -> None:
        async with redrive.open(address) as app:
            APPS.append(app)
            for flow in (await app.start(StartsOthers.call()), await app.start(Opens.call(address))):
                with pytest.raises(RuntimeError, match=r"an app of redrive.open\(...\) cannot be used in a workflow"):
                    await flow.result(timeout=10)
            assert {flow.definition for flow in await app.flows()} == {
                "workflow:one_loop.StartsOthers",
                "workflow:one_loop.Opens",
            }

    asyncio.run(story())


def test_an_app_that_is_used_in_another_thread_says_how_and_is_none_the_worse(address: str) -> None:
    async def story() -> None:
        async with redrive.open(address) as app:
            ended = await app.start(double(1))
            await ended.result(timeout=10)
            for use in (lambda: app.start(double(2)), lambda: ended.result(timeout=10), app.flows, ended.status):
                with pytest.raises(RuntimeError, match=r"opened in another event loop.*run_coroutine_threadsafe"):
                    await asyncio.to_thread(asyncio.run, use())
            loop = asyncio.get_running_loop()
            started = asyncio.run_coroutine_threadsafe(app.start(double(3)), loop)
            handle = await asyncio.to_thread(started.result, 10)
            assert await handle.result(timeout=10) == 6
            assert len(await app.flows()) == 2

    asyncio.run(story())


def test_an_app_without_asyncio_says_where_it_can_be_used(address: str) -> None:
    trio = pytest.importorskip("trio")

    async def story() -> int:
        async with redrive.open(address) as app:
            return await (await app.start(double(5))).result(timeout=10)

    async def main() -> int:
        with pytest.raises(
            RuntimeError, match=r"a running asyncio event loop.*trio\.to_thread\.run_sync\(asyncio\.run, main\(\)\)"
        ):
            await story()
        return int(await trio.to_thread.run_sync(asyncio.run, story()))

    assert trio.run(main) == 10


def test_an_app_that_could_not_be_opened_may_be_opened_later_in_another_loop(tmp_path: Path) -> None:
    app = redrive.open(f"sqlite:///{tmp_path}/later/app.db")

    async def story() -> int:
        async with app:
            return await (await app.start(double(4))).result(timeout=10)

    with pytest.raises(redrive.errors.StoreUnusableError, match="does not exist; create it"):
        asyncio.run(story())
    (tmp_path / "later").mkdir()
    assert asyncio.run(story()) == 8


def test_an_app_that_was_not_opened_refuses_to_start_a_flow() -> None:
    """A store in memory would take the flow, and nothing would ever run it."""

    async def scenario() -> None:
        with pytest.raises(redrive.errors.StoreError, match="not open; use it inside `async with"):
            await redrive.open("memory://").start(double(1))

    asyncio.run(scenario())
