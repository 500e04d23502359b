"""The fleet simulator: it repeats itself, finds nothing in the engine, and finds what is broken on purpose."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.simulation import definitions
from tests.chaos.simulation.drama import Drama

import redrive
from redrive import Permanent, RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.determinism.clock import SYSTEM_CLOCK, current_clock
from redrive.determinism.ids import random_token
from redrive.runners.attempt import Attempt
from redrive.stores.leases import Lease, Reaped
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch
from redrive.telemetry.work import listen_to_work
from redrive.testing import Faults, simulate_fleet
from redrive.testing.fleet.fate import PEACE
from redrive.testing.fleet.history import History
from redrive.testing.fleet.machine import FleetApp
from redrive.testing.fleet.rare_collections import RareCollections
from redrive.worker import inbox
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.journal import Journal
from redrive.worker.slots import ExecutionSlots

HISTORIES = 400
"""About 5 s; `make chaos` runs 10,000, and `python -m tests.chaos.simulate` as many as you like."""
WITHIN = 300


@pytest.fixture(autouse=True)
def _registered() -> None:
    definitions.register()


def first_finding(seeds: range) -> str | None:
    with RareCollections() as collections:
        for seed in seeds:
            if found := Drama(seed).run().findings.all:
                return f"seed {seed}: {found[0]}"
            collections.history_ended()
    return None


@pytest.mark.promise("X13")
def test_random_flows_end_as_in_peace_in_every_history_of_a_faulty_fleet() -> None:
    found = first_finding(range(HISTORIES))
    assert found is None, f"{found}; see: python -m tests.chaos.simulate --story --seed ..."


@pytest.mark.promise("X13", "L7")
def test_a_fleet_whose_work_is_measured_ends_as_in_peace() -> None:
    told: list[object] = []
    stop = listen_to_work(told.append)
    try:
        found = first_finding(range(80))
    finally:
        stop()
    assert found is None
    assert told


def stories(seeds: range) -> str:
    told = "\n".join(str(Drama(seed).run().story) for seed in seeds)
    return hashlib.sha256(told.replace(f":{os.getpid()}", "").encode()).hexdigest()


@pytest.mark.promise("X13")
def test_a_seed_gives_the_same_story_in_every_process() -> None:
    code = (
        "from tests.chaos.simulation import definitions; from tests.testing.test_fleet_simulator import stories;"
        "definitions.register(); print(stories(range(25)))"
    )
    root = Path(__file__).parents[2]
    told = {
        subprocess.run(  # noqa: S603 - this interpreter, with the code above
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {stories(range(25))}


def test_other_seeds_give_other_stories() -> None:
    assert stories(range(1)) != stories(range(1, 2))


# It finds what is broken on purpose


async def do_not_reap(self: MemoryStore) -> list[Reaped]:
    return []


async def commit_again_blindly(self: Journal, batch: Batch) -> None:
    await self._commit(batch)


def take_again_and_again(run: Any, message: Any) -> Any:
    run.log.messages_read += 1
    run.log.messages_taken[message.id] = None
    return inbox.read(message)


def free_twice(self: ExecutionSlots, attempt: Attempt) -> None:
    self.release(attempt.executor)
    self.release(attempt.executor)


def forget_nothing(self: AttemptStarter, item: Any) -> None:
    pass


def any_lease(self: MemoryData, lease: Lease) -> Any:
    return self.workers.get(lease.epoch) or next(iter(self.workers.values()))


BROKEN: list[tuple[str, object, str, Callable[..., Any]]] = [
    ("expired leases are not reaped", MemoryStore, "reap_leases", do_not_reap),
    ("unknown commits are written again", Journal, "_commit_again", commit_again_blindly),
    ("messages stay unread", inbox, "take", take_again_and_again),
    ("slots are freed twice", ExecutionSlots, "free", free_twice),
    ("rows stay in the retry queue", AttemptStarter, "forget", forget_nothing),
    ("leases are not checked", MemoryData, "valid_holder", any_lease),
]


@pytest.mark.promise("X13")
@pytest.mark.parametrize(("what", "where", "name", "broken"), BROKEN, ids=[what for what, *_ in BROKEN])
def test_it_finds_what_is_broken(
    what: str, where: object, name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, broken)
    assert first_finding(range(WITHIN)) is not None


# The world


def test_code_that_blocks_its_machine_holds_nobody_else() -> None:
    history, seen = History(1, PEACE, workers=2), list[tuple[str, float]]()

    async def block(app: FleetApp) -> None:
        clock = current_clock()
        clock.sleep_until(clock.monotonic() + 5.0)
        seen.append(("blocked", clock.monotonic()))

    async def look(app: FleetApp) -> None:
        seen.append(("looked", current_clock().monotonic()))

    history.visit(1.0, history.workers[0], block)
    history.visit(2.0, history.client, look)
    history.visit(3.0, history.workers[0], look)
    history.run()
    assert [what for what, _ in seen] == ["looked", "blocked", "looked"]
    assert [at for _, at in seen] == pytest.approx([2.0, 6.0, 6.0])
    assert not history.findings.all


def test_time_and_tokens_are_the_machine_s_own_again_afterwards() -> None:
    before = SYSTEM_CLOCK.monotonic()
    Drama(5).run()
    assert before <= SYSTEM_CLOCK.monotonic() < before + 600
    assert random_token() != random_token()


# Flows of users


@action(name="fleet_test.charge")
async def charge(user: str) -> str:
    if current_attempt().number < 2:
        raise ConnectionError("the bank does not answer")
    return f"{user} paid"


@workflow(name="fleet_test.Billing")
class Billing(Workflow):
    async def run(self, user: str) -> str:
        paid = await self.run_action(charge(user), retry=RetryPolicy(attempts=None, backoff_seconds=1))
        await asyncio.sleep(3)
        return paid


MILD = Faults(kills=0.5, freezes=0.0, partitions=0.0)


def test_a_user_s_flow_ends_as_in_peace() -> None:
    report = simulate_fleet(Billing.call("ann"), histories=30, faults=MILD)
    assert report.histories == 30
    assert report.calls >= 30 * 2


def test_calls_can_be_drawn_from_the_seed() -> None:
    def draw(random: Any) -> Any:
        return Billing.call(random.choice(["ann", "bob"])) if random.random() < 0.5 else charge("cid")

    assert simulate_fleet(draw, histories=5, faults=MILD, flows=3).histories == 5


COUNT = {"calls": 0}


@action(name="fleet_test.counts")
async def counts() -> int:
    """Returns something else each time, as no action should that may be called again."""
    COUNT["calls"] += 1
    await current_clock().asleep_until(current_clock().monotonic() + 2)
    return COUNT["calls"]


def test_a_flow_that_ends_otherwise_is_told_with_its_seed() -> None:
    def draw(random: Any) -> Any:
        COUNT["calls"] = 0
        return counts()

    with pytest.raises(AssertionError, match=r"another outcome than in peace") as first:
        simulate_fleet(draw, histories=100, flows=1, faults=Faults(kills=2.0, freezes=0.0))
    seed = int(str(first.value).split()[1].rstrip(":"))
    with pytest.raises(AssertionError) as again:
        simulate_fleet(draw, histories=1, seed=seed, flows=1, faults=Faults(kills=2.0, freezes=0.0))
    assert str(again.value) == str(first.value)
    assert "kills" in str(first.value) or "is dead" in str(first.value)


def test_http_steps_are_answered_by_a_function() -> None:
    graph = redrive.Graph("fleet_test_graph", goals=["greet"]).step(
        "greet", "http://127.0.0.1:9/greet", inputs={"name": "string"}, outputs={"text": "string"}
    )

    def answer(endpoint: str, inputs: Any) -> Any:
        return {"text": f"{endpoint} {inputs['name']}"}

    assert simulate_fleet(graph.call({"name": "ann"}), histories=3, http=answer, faults=MILD).calls >= 3


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one history"):
        simulate_fleet(Billing.call("ann"), histories=0)

    async def inside() -> None:
        simulate_fleet(Billing.call("ann"))

    with pytest.raises(RuntimeError, match="not async"):
        asyncio.run(inside())


@action(name="fleet.hopeless")
async def hopeless() -> None:
    raise Permanent("broken")


@pytest.mark.promise("X13")
def test_a_flow_that_fails_without_faults_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"without any fault, a flow failed .*Permanent: broken"):
        simulate_fleet(hopeless(), histories=1, faults=MILD)
    assert simulate_fleet(hopeless(), histories=1, faults=MILD, may_fail=True).histories == 1


@pytest.mark.parametrize("value", [-1, float("nan"), "x", True, 1e9])
def test_impossible_faults_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"Faults\(kills=.*use a number from 0 to 1000"):
        Faults(kills=value)


def test_what_cannot_be_started_is_refused() -> None:
    with pytest.raises(TypeError, match="pass a call such as"):
        simulate_fleet("Delivery")  # type: ignore[arg-type]  # as a user may
