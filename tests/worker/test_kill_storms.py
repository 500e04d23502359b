"""Workers that are killed again and again: innocent flows end well, and those that kill their workers do not."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from tests.worker.fleet import Fleet, check_notes
from tests.worker.shop import Naps, Small, die, nap_in_thread

import redrive
from redrive.client.app import App
from redrive.errors import AttemptLostError
from redrive.policies.decide import MOST_LOST
from redrive.policies.history import SUSPECT_AFTER
from redrive.stores.records import FlowQuery

pytestmark = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)

UNFINISHED = FlowQuery(status=("ready", "waiting", "running", "paused", "parked"), limit=5)


async def all_done(app: App, patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while left := await app.flows(UNFINISHED):
        assert time.monotonic() < end, f"stuck: {left}"
        await asyncio.sleep(0.05)


@pytest.mark.promise("X3", "X1")
def test_no_innocent_flow_becomes_a_dead_letter_in_a_storm_of_kills(address: str, tmp_path: Path) -> None:
    """Each attempt takes long enough to be hit: many are lost, some of them several times."""
    chance = random.Random(5)

    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            for number in range(60):
                await app.start(Naps.call(0.2))
                await app.start(Small.call(number))
                await app.start(nap_in_thread(0.2))
            await asyncio.to_thread(fleet.start, 2)
            for _ in range(8):
                await asyncio.sleep(chance.uniform(0.1, 0.4))
                fleet.kill(chance.choice(fleet.workers))
                await asyncio.to_thread(fleet.start)
            await all_done(app)
            assert await app.dead_letters() == []
            assert {flow.status for flow in await app.flows(FlowQuery(limit=1000))} == {"completed"}

    with Fleet(address, tmp_path, lease=1.0) as fleet:
        asyncio.run(scenario(fleet))
        check_notes(fleet.notes())


@pytest.mark.promise("X3", "P18")
def test_an_action_that_ends_its_process_is_a_dead_letter_after_five_and_those_beside_it_go_on(
    address: str, tmp_path: Path
) -> None:
    async def scenario(fleet: Fleet) -> None:
        async with redrive.open(address, worker=False) as app:
            deadly = await app.start(die())
            others = [await app.start(Naps.call(0.3)) for _ in range(20)]
            deaths = 0
            (worker,) = fleet.start()
            end = time.monotonic() + 90
            while await app.flows(UNFINISHED):
                assert time.monotonic() < end
                if worker.poll() is not None:
                    assert worker.returncode == 9
                    deaths += 1
                    (worker,) = await asyncio.to_thread(fleet.start)
                await asyncio.sleep(0.02)
            # One whose evidence did not reach the store in time counts against nobody.
            assert SUSPECT_AFTER + MOST_LOST <= deaths <= SUSPECT_AFTER + MOST_LOST + 2
            with pytest.raises(AttemptLostError, match="it was the only suspect running on that worker"):
                await deadly.result(timeout=10)
            (letter,) = await app.dead_letters()
            assert (letter.flow_id, letter.kind) == (deadly.id, "poison")
            for handle in others:
                assert await handle.result(timeout=10) >= 2

    with Fleet(address, tmp_path, lease=1.0) as fleet:
        asyncio.run(scenario(fleet))
        check_notes(fleet.notes())
