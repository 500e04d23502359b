"""Signals survive a worker that is killed at any commit, and any order of signals, actions and crashes."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.signals.approvals import Steps, ship

import redrive
from redrive import Workflow, workflow
from redrive.flows.message_events import SignalReceived
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app

pytestmark = pytest.mark.promise("E1")


@workflow(name="crashes.Both")
class Both(Workflow):
    """Collects what its handler and its mailbox get, with an action after each letter."""

    def __init__(self) -> None:
        self.got: list[int] = []

    @redrive.signal
    def number(self, n: int) -> None:
        self.got.append(n)

    async def run(self, letters: int, numbers: int) -> tuple[list[int], list[int]]:
        read: list[int] = []
        for _ in range(letters):
            letter = await workflow.receive("letter", timeout="90d")
            read.append(letter["n"])
            await ship(str(letter["n"]), "x")
        await workflow.wait_for(lambda: len(self.got) == numbers)
        return read, self.got


async def a_busy_life(app: FlowApp) -> Any:
    with app.clock.frozen():
        handle = await app.start(Both.call(2, 3), key="k", delay="1s")
        await handle.signal("letter", n=1)
        await handle.signal("number", n=1)
        await app.settled(handle)
        app.clock.advance(2)
        await app.settled(handle)
        await handle.pause()
        await handle.signal("number", n=2)
        await app.settled(handle)
        await handle.resume()
        await handle.signal("letter", n=2)
        await handle.signal("number", n=3)
    outcome = await app.outcome(handle)
    received = [line.event.id for line in outcome.lines if isinstance(line.event, SignalReceived)]
    return outcome.result, len(received), len(set(received))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_killed_at_every_commit_each_signal_is_received_once(store: str, tmp_path: Path) -> None:
    names = itertools.count()
    fresh = (lambda: f"sqlite:///{tmp_path}/{next(names)}.db") if store == "sqlite" else "memory://"
    runs = crash_everywhere(a_busy_life, store=fresh)
    assert any(run.crashed for run in runs)
    assert {run.outcome[1:] for run in runs} == {(5, 5)}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(["letter", "number", "settle", "kill", "pause", "resume", "tick"]), min_size=1, max_size=25
    )
)
def test_any_order_of_signals_and_crashes_gives_what_a_model_gives(steps: list[str]) -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Both.call(steps.count("letter"), steps.count("number") + 1), delay="5s")
                for n, step in enumerate(steps):
                    if step in ("letter", "number"):
                        await handle.signal(step, n=n)
                    elif step == "settle":
                        await app.settled(handle)
                    elif step == "kill":
                        await app.kill()
                        app.revive()
                    elif step == "tick":
                        app.clock.advance(3)
                    elif step == "pause":
                        await handle.pause()
                    else:
                        await handle.resume()
                await handle.resume()
                # Without it, the flow may have ended before the last step.
                await handle.signal("number", n=100)
                app.clock.advance(10)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    letters = [n for n, step in enumerate(steps) if step == "letter"]
    numbers = [n for n, step in enumerate(steps) if step == "number"]
    assert outcome.result == (letters, [*numbers, 100])


def test_signals_to_many_flows_at_once_all_arrive(address: str) -> None:
    async def story() -> list[Any]:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handles = [await app.start(Steps.call(3)) for _ in range(10)]
                await asyncio.gather(*(one.signal("go", by=str(n)) for n in range(3) for one in handles))
                return [sorted((await app.outcome(one)).result) for one in handles]

    assert asyncio.run(story()) == [[f"step shipped for {n}" for n in range(3)]] * 10
