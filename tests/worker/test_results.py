"""Whoever waits for a result gets an answer, whatever others ask for and whatever becomes of the app or the flow."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, action
from redrive.client import results
from redrive.errors import FlowNotFoundError, StoreError, StoreUnavailableError
from redrive.stores.interface import Store

PATIENCE = 10.0


@action(name="results.hang")
async def hang() -> None:
    await asyncio.Event().wait()


@action(name="results.quick")
async def quick() -> int:
    return 1


async def answer(waiting: "asyncio.Task[Any]") -> BaseException | None:
    done, _ = await asyncio.wait([waiting], timeout=PATIENCE)
    assert done, "it still waits"
    return waiting.exception()


def test_closing_the_app_ends_the_waits_for_results(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, grace=0.0) as app:
            handle = await app.start(hang())
            waiting = asyncio.create_task(handle.result())
            await asyncio.sleep(0)  # it begins to wait
        for late in (waiting, asyncio.create_task(handle.result())):
            error = await answer(late)
            assert isinstance(error, RuntimeError)
            assert "this app was closed" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("timeout", ["20ms", timedelta(milliseconds=20), 0.02, 0, timedelta(seconds=-1)], ids=repr)
def test_a_wait_has_an_end_in_every_way_that_times_are_written(timeout: Any) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0) as app:
            handle = await app.start(hang())
            with pytest.raises(TimeoutError, match=r"is still (ready|running) after"):
                await handle.result(timeout=timeout)
            with pytest.raises(ValueError, match="'soon' is not a duration"):
                await handle.result(timeout="soon")

    asyncio.run(scenario())


@pytest.mark.parametrize("bad_id", ["nul\x00", "half \ud800"])
def test_an_id_that_no_store_can_hold_is_no_flow_and_no_matter_of_the_others(address: str, bad_id: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            handle = await app.start(quick())
            waiting = asyncio.create_task(handle.result())
            bad = app.handle(bad_id)
            commands: list[Callable[[], Awaitable[Any]]] = [bad.result, bad.status, bad.cancel]
            for command in commands:
                with pytest.raises(FlowNotFoundError, match="no flow '") as caught:
                    await command()
                assert str(caught.value).encode()
            working = asyncio.create_task(app.work())
            assert await answer(waiting) is None
            app.stop()
            await working

    asyncio.run(scenario())


class Choosy:
    """A store that refuses to be asked for one of the flows."""

    def __init__(self, store: Store, refused: str, error: Exception) -> None:
        self._find_flows = store.find_flows
        self._refused = refused
        self._error = error

    async def find_flows(self, ids: list[str]) -> Any:
        if self._refused in ids:
            raise self._error
        return await self._find_flows(ids)


@pytest.mark.parametrize("error", [StoreError("not that one"), ValueError("not that one")])
def test_what_the_store_refuses_about_one_flow_is_told_to_who_waits_for_it_alone(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            refused, other = await app.start(quick()), await app.start(quick())
            monkeypatch.setattr(app.store, "find_flows", Choosy(app.store, refused.id, error).find_flows)
            waits = [asyncio.create_task(handle.result()) for handle in (refused, other)]
            assert await answer(waits[0]) is error
            working = asyncio.create_task(app.work())
            assert await answer(waits[1]) is None
            app.stop()
            await working

    asyncio.run(scenario())


def test_a_flow_that_is_redriven_before_its_failure_was_read_still_tells_of_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = itertools.count(1)
    tried_again = asyncio.Event()

    @action(name="results.fails_once", retry=RetryPolicy(attempts=1))
    async def fails_once() -> None:
        if next(tries) == 1:
            raise ValueError("the first time")
        tried_again.set()
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with redrive.open(address, grace=0.0) as app:
            handle = await app.start(fails_once())
            read = app.store.read_events

            async def slowly(ids: list[str]) -> Any:
                if await app.redrive(handle.id, by="ann", why="again"):
                    await tried_again.wait()
                return await read(ids)

            monkeypatch.setattr(app.store, "read_events", slowly)
            error = await answer(asyncio.create_task(handle.result()))
            assert isinstance(error, ValueError)
            report = redrive.report_of(error)
            assert report is not None
            assert len(report.attempts) == 1

    asyncio.run(scenario())


@action(name="results.fails", retry=RetryPolicy(attempts=1))
async def fails() -> None:
    raise ValueError("as it should")


def test_a_wait_ends_in_time_though_the_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            handle = await app.start(quick())
            monkeypatch.setattr(app.store, "find_flow", lambda _: asyncio.Event().wait())
            monkeypatch.setattr(results, "STATUS_TIMEOUT", 0.01)
            error = await answer(asyncio.create_task(handle.result(timeout=0.01)))
            assert isinstance(error, TimeoutError)
            assert "is still in an unknown state (the store did not answer) after 0.01 s" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("worker", [True, False])
def test_a_wait_goes_on_though_the_store_is_away_when_the_outcome_is_read(
    worker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=worker) as app:
            read, outages = app.store.read_events, itertools.repeat(StoreUnavailableError("away"), 2)

            async def cut_off(ids: list[str]) -> Any:
                for error in outages:
                    raise error
                return await read(ids)

            monkeypatch.setattr(app.store, "read_events", cut_off)
            monkeypatch.setattr(results, "SWEEP", 0.01)
            waiting = asyncio.create_task((await app.start(fails())).result())
            working = asyncio.create_task(app.work() if not worker else asyncio.sleep(0))
            assert isinstance(await answer(waiting), ValueError)
            app.stop()
            await working

    asyncio.run(scenario())
