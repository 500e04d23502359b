"""A step or a `spread` with very many items is logged in pieces: no turn of the loop has more than a few hundred."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

import redrive
from redrive import Graph, RetryPolicy, action
from redrive.flows.events import ItemAdded, ItemCancelled, Line, TurnContinued, is_activation
from redrive.flows.graphs import progress
from redrive.flows.scripts import execution
from redrive.flows.scripts.script import Script
from redrive.flows.workflows import loop
from redrive.testing import FlowApp, crash_everywhere, flow_app, run_flow

BROKEN: set[int] = set()


@action(name="fan.echo", retry=RetryPolicy(attempts=9, backoff_seconds=1))
async def echo(n: int) -> int:
    if n in BROKEN:
        raise redrive.Permanent("broken")
    return n


@action(name="fan.slow", retry=RetryPolicy(attempts=9, backoff_seconds=1))
async def slow(n: int) -> int:
    if n in BROKEN:
        raise redrive.Permanent("broken")
    await asyncio.sleep(0)
    return n


def each(handler: Any = echo, **more: Any) -> Graph:
    inputs = {"n": {"type": "integer", "for_each": True, "from": "ns"}}
    return Graph("fan").step("each", handler, inputs=inputs, outputs={"out": "any"}, **more)


SPREAD = Script("fan", "fn main(ns):\n    return spread ns:n -> @fan.echo(n=n)\n")


def commands_of_turns(lines: Sequence[Line]) -> list[int]:
    """How many items each turn adds or cancels."""
    counts = [0]
    for line in lines:
        if is_activation(line.event):
            counts.append(0)
        counts[-1] += isinstance(line.event, ItemAdded | ItemCancelled)
    return counts


@pytest.fixture
def in_threes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOVES_AT_ONCE", 3)
    monkeypatch.setattr(loop, "CALLBACKS_AT_ONCE", 3)
    monkeypatch.setattr(execution, "_BEGUN_AT_ONCE", 2)


@pytest.mark.promise("X7", "X8")
@pytest.mark.parametrize("kind", ["graph", "script"])
def test_no_turn_has_more_than_some_hundred_items(kind: str, address: str) -> None:
    count = 2_000

    async def scene() -> tuple[Any, list[Line]]:
        async with redrive.open(address, worker=True) as app:
            given = {"ns": list(range(count))}
            handle = await app.start(each().call(given) if kind == "graph" else SPREAD.call(given))
            return await handle.result(), await app.read_lines(handle.id)

    result, lines = asyncio.run(scene())
    assert (result["out"] if kind == "graph" else result) == list(range(count))
    assert sum(commands_of_turns(lines)) == count
    assert max(commands_of_turns(lines)) <= progress.MOVES_AT_ONCE
    assert any(isinstance(line.event, TurnContinued) for line in lines)


@pytest.mark.promise("X7", "X8")
@pytest.mark.usefixtures("in_threes")
@pytest.mark.parametrize("kind", ["graph", "parallel 2", "script"])
def test_a_crash_between_two_pieces_changes_nothing(kind: str) -> None:
    given = {"ns": list(range(10))}
    graph = each(parallelism=2 if kind == "parallel 2" else None)
    call = SPREAD.call(given) if kind == "script" else graph.call(given)
    plain = run_flow(call)
    assert max(commands_of_turns(plain.lines)) <= 3
    runs = crash_everywhere(call)
    assert len(runs) > 8
    assert all(run.outcome.result == plain.result for run in runs)


@pytest.mark.promise("X7", "X8")
@pytest.mark.usefixtures("in_threes")
def test_what_a_failed_item_abandons_is_cancelled_in_pieces_and_comes_back_with_a_redrive() -> None:
    async def scene(app: FlowApp) -> Any:
        BROKEN.add(0)
        handle = await app.start(each(slow, parallelism=1).call({"ns": list(range(12))}))
        with contextlib.suppress(redrive.Permanent):
            await handle.result()
        lines = await app.read_lines(handle.id)
        assert max(commands_of_turns(lines)) <= 3
        # Those that had not even started when the first one failed need not be cancelled.
        assert sum(isinstance(line.event, ItemCancelled) for line in lines) <= 11
        BROKEN.discard(0)
        await app.redrive(handle.id, by="ann", why="mended")
        result = await handle.result()
        assert not any(view.state != "completed" for view in await app.steps_of(handle.id))
        return result

    try:
        crash_everywhere(scene)
    finally:
        BROKEN.clear()


@pytest.mark.promise("X7")
@pytest.mark.parametrize("kind", ["graph", "script"])
def test_a_log_with_all_items_in_one_turn_is_replayed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier versions wrote it."""
    release = asyncio.Event()

    @action(name="fan.held", retry=RetryPolicy(attempts=9, backoff_seconds=1))
    async def held(n: int) -> int:
        await release.wait()
        return n

    script = Script("fan_held", "fn main(ns):\n    return spread ns:n -> @fan.held(n=n)\n")

    async def scene() -> Any:
        given = {"ns": list(range(20))}
        async with flow_app() as app:
            with monkeypatch.context() as before:
                before.setattr(progress, "MOVES_AT_ONCE", 10**6)
                before.setattr(loop, "CALLBACKS_AT_ONCE", 10**6)
                handle = await app.start(each(held).call(given) if kind == "graph" else script.call(given))
                for _ in range(50):
                    await asyncio.sleep(0)
            assert commands_of_turns(await app.read_lines(handle.id)) == [20]
            monkeypatch.setattr(progress, "MOVES_AT_ONCE", 3)
            monkeypatch.setattr(loop, "CALLBACKS_AT_ONCE", 3)
            await app.kill()
            app.revive()
            release.set()
            return await handle.result()

    result = asyncio.run(scene())
    assert (result["out"] if kind == "graph" else result) == list(range(20))
