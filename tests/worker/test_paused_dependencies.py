"""Queues and flows that are paused while their dependency fails: once both are over, nothing waits in vain."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import redrive
from redrive import Graph, RetryPolicy, Workflow, action, workflow
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import Random, seeded_random
from redrive.errors import FlowFinishedError, InvalidStateError
from redrive.resilience.budget import BudgetSettings
from redrive.resilience.circuit import CircuitSettings
from redrive.testing.fleet.fate import PEACE
from redrive.testing.fleet.history import History
from redrive.testing.fleet.machine import FleetApp
from redrive.testing.fleet.rare_collections import RareCollections
from redrive.worker.settings import WorkerSettings

BANK = "paused bank"
QUEUES = ("mail", "post")
SOON = RetryPolicy(attempts=None, backoff_seconds=0.2, max_backoff_seconds=1.0)
NO_BUDGET = BudgetSettings(floor=1_000_000)
COOLDOWN = 2.0
HISTORIES = 80
LONGEST_REST = COOLDOWN + 4.0
"""Seconds without any attempt after all is well again: until the next probe, and a random part so that not all ask it
at once. Whoever lost its wake-up waits for good, or for another turn of many seconds."""


class Bank:
    """Fails often until it is well; notes when it is called, and until when it is busy."""

    def __init__(self, random: Random, well_at: float, failing: float, takes: float) -> None:
        self.random = random
        self.well_at = well_at
        self.failing = failing
        self.takes = takes
        self.busy: list[tuple[float, float]] = []

    async def call(self) -> None:
        clock = current_clock()
        now = clock.monotonic()
        until = now + self.takes * self.random.random()
        self.busy.append((now, until))
        await clock.asleep_until(until)
        if clock.monotonic() < self.well_at and self.random.random() < self.failing:
            raise ConnectionError("away")

    def longest_rest(self, since: float) -> float:
        """The longest time without a call from then until the last one."""
        longest, free_at = 0.0, since
        for began, ended in sorted(self.busy):
            longest, free_at = max(longest, began - free_at), max(free_at, ended)
        return longest


bank: Bank


@action(name="paused_bank.charge", dependency=BANK, retry=SOON)
async def charge(order: int) -> dict[str, int]:
    await bank.call()
    return {"paid": order}


@workflow(name="paused_bank.Orders")
class Orders(Workflow):
    async def run(self, count: int, how: str) -> int:
        if how == "at once":
            await asyncio.gather(*(charge(order) for order in range(count)))
        else:
            for order in range(count):
                await charge(order)
                if how == "slowly":
                    await asyncio.sleep(0.5)
        return count


ORDERS = Graph("paused-bank-orders").step(
    "charge",
    charge,
    inputs={"order": {"type": "integer", "from": "orders"}},
    for_each="order",
    outputs={"paid": "integer"},
    parallelism=2,
    retry=SOON,
)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    redrive.register_graph(ORDERS)
    yield
    redrive.define_dependency(BANK)


async def pause_and_resume(app: FleetApp, flow_id: str, random: Random, patience: float) -> None:
    handle = app.handle(flow_id)
    await asyncio.sleep(patience * random.random())
    with contextlib.suppress(FlowFinishedError, InvalidStateError):
        await handle.pause()
        await asyncio.sleep(patience * random.random())
        await handle.resume()


async def pause_queues(app: FleetApp, random: Random, until: float) -> None:
    clock = current_clock()
    while clock.monotonic() < until:
        queue = random.choice(QUEUES)
        await app.pause_queue(queue, by="ann", why="the bank is away")
        await asyncio.sleep(random.choice((0.0, 0.01, 0.3, 3.0)) * random.random())
        await app.resume_queue(queue)
        await asyncio.sleep(random.random())


def live_through(seed: int, budget: BudgetSettings) -> tuple[History, float]:
    """A history; and when the bank was well, with nothing paused any more."""
    global bank
    random = seeded_random(f"paused bank {seed}")
    span = random.choice((6.0, 15.0))
    bank = Bank(random, span * random.random(), random.choice((0.3, 0.5, 0.8, 1.0)), random.choice((0.0, 0.05, 0.5)))
    circuit = CircuitSettings(failures=random.choice((1, 3, 5)), cooldown=COOLDOWN, probe_expires=COOLDOWN)
    redrive.define_dependency(BANK, circuit=circuit, budget=budget)
    slots, flows = random.choice((1, 2, 4, 1000)), random.choice((2, 4, 1000))
    settings = WorkerSettings(lease=2.0, poll=1.0, grace=0.5, concurrency=slots, flows=flows)
    history = History(seed, PEACE, workers=random.choice((1, 1, 2)), settings=settings)
    resumed_at = [0.0]

    async def operate(app: FleetApp) -> None:
        await pause_queues(app, random, span)
        resumed_at[0] = max(resumed_at[0], history.world.now)

    async def order(app: FleetApp) -> None:
        count, how = random.randint(1, 4), random.choice(("in turn", "at once", "slowly", "graph"))
        call: Any = ORDERS.call({"orders": list(range(count))}) if how == "graph" else Orders.call(count, how)
        handle = await app.start(call, queue=random.choice(QUEUES))
        if random.random() < 0.1:
            await asyncio.sleep(span / 2 * random.random())
            with contextlib.suppress(FlowFinishedError):
                await handle.cancel()
        elif random.random() < 0.4:
            await pause_and_resume(app, handle.id, random, span / 2)
            resumed_at[0] = max(resumed_at[0], history.world.now)

    history.visit(0.0, history.client, operate)
    for _ in range(random.randint(3, 12)):
        history.visit(span / 2 * random.random(), history.client, order)
    history.run(span=span)
    return history, max(bank.well_at, resumed_at[0])


@pytest.mark.promise("P13", "X13")
def test_whatever_was_paused_while_its_dependency_failed_goes_on_soon_after() -> None:
    with RareCollections() as collections:
        for seed in range(HISTORIES):
            history, well_at = live_through(seed, NO_BUDGET)
            assert not history.findings.all, f"seed {seed}: {history.findings.all[0]}"
            rest = bank.longest_rest(well_at)
            assert rest < LONGEST_REST, f"seed {seed}: nobody called for {rest:.1f} s"
            collections.history_ended()


@pytest.mark.promise("P14")
def test_whoever_waits_for_the_budget_is_done_when_the_retries_of_the_outage_no_longer_count() -> None:
    for seed in range(30):
        took = seconds_to_drain(seed)
        # The last retries were made when the bank got well, and count for a minute, in steps of six seconds.
        assert took < 60 + 6 + 3, f"seed {seed}: {took:.0f} s"


def seconds_to_drain(seed: int) -> float:
    """How long seven flows, paused now and then, take once the bank is well; with a budget, but no circuit."""
    global bank
    random, well_at = seeded_random(f"budget {seed}"), 8.0
    bank = Bank(random, well_at, random.choice((0.3, 0.5, 0.8)), 0.04)
    # With a circuit, its ramp would limit the retries instead.
    redrive.define_dependency(BANK, circuit=CircuitSettings(failures=10_000))
    history = History(seed, PEACE, workers=1)

    async def order(app: FleetApp) -> None:
        handles = [await app.start(Orders.call(3, "in turn"), queue="mail") for _ in range(7)]
        await pause_queues(app, random, well_at)
        for handle in handles:
            await handle.result()

    history.visit(0.0, history.client, order)
    history.run(span=well_at)
    assert not history.findings.all, f"seed {seed}: {history.findings.all[0]}"
    return max(ended for _, ended in bank.busy) - well_at
