"""How long a store takes for what the dashboard shows: `python -m benchmarks.dashboard`.

Fills a store with 100,000 flows, 10,000 of them with a retry that waits, 1,000 of them dead, and with an hour of
activity; then reads what each view needs, ten times. The median counts.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from tests.postgres_server import PostgresServer

from benchmarks.figures import OURS, Budget, Case, Figure, Outcome, arguments, progress, show, step, value_of
from redrive.assembly import store_at
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.server.observed.overview import overview
from redrive.server.resources.overview import observe
from redrive.stores.activity import ActivityQuery, ActivityRow
from redrive.stores.interface import Store
from redrive.stores.leases import NewWorker
from redrive.stores.records import Batch, DeadLetter, DeadQuery, FlowChange, FlowQuery, NewFlow, RetryQuery, RetryRow

FLOWS, RETRYING, DEAD = 100_000, 10_000, 1_000
AT_ONCE = 1_000
LOOKS = 10
DEPENDENCIES = ("bank", "post", "search", "mail")
DEFINITIONS = ("workflow:Billing", "workflow:Signup", "action:charge", "graph:order", "workflow:Export")
ERRORS = ("ConnectionError", "TimeoutError", "httpx.ReadTimeout")
OVERVIEW_BUDGET, LIST_BUDGET = 150.0, 300.0

CASES = {
    "overview": "everything that the overview is made of",
    "newest": "the newest 50 flows, and what they wait for",
    "retrying": "50 flows that retry, and what they wait for",
    "dependency": "50 flows that have to do with one dependency",
    "error": "50 flows with one error",
    "waits_for": "50 flows that wait for an open circuit",
    "failed": "50 flows that failed",
    "text": "flows found by a part of their last error, which few have",
    "nothing": "no flow found by a text, or by a message of a dead letter",
    "count": "how many flows match a text",
    "dead_groups": "the groups of dead letters",
    "dependencies": "the groups of retries and dead letters, and an hour of activity by dependency",
    "definitions": "the flows of each definition, and an hour of activity by step",
}


async def fill(store: Store, flows: int, now: float) -> None:
    lease = await store.acquire_lease(NewWorker(name="bench:1", definitions=DEFINITIONS), 3600.0)
    for number, first in enumerate(range(0, flows, AT_ONCE), 1):
        await store.commit(lease, _batch(number, first, min(first + AT_ONCE, flows), now, flows))
    for minute in range(60):
        await store.report(lease, None, list(_activity(now - now % 60 - 60 * minute)))
    await _settle(store)


async def _settle(store: Any) -> None:
    """Let the database learn what is in the tables, as it does by itself within a minute."""
    if hasattr(store, "_pool"):
        await store._pool.run(lambda connection: connection.execute("VACUUM ANALYZE"))


def _batch(number: int, first: int, last: int, now: float, flows: int) -> Batch:
    batch = Batch(number=number)
    for one in range(first, last):
        flow_id = f"01a1f057-{one:04x}-7000-8000-{one:012x}"
        definition, created_at = DEFINITIONS[one % 5], now - 86_400 + one * 0.5
        batch.new_flows.append(
            NewFlow(
                id=flow_id,
                definition=definition,
                input='{"order": "' + "x" * 200 + '"}',
                created_at=created_at,
                start_at=created_at,
                queue=("default", "mail", "nightly")[one % 3],
            )
        )
        place = one % (flows // DEAD)
        if place == 0:
            batch.flows.append(FlowChange(flow_id=flow_id, status="failed", finished_at=created_at))
            batch.dead.append(_letter(flow_id, definition, one, created_at))
        elif place <= RETRYING // DEAD:
            batch.flows.append(FlowChange(flow_id=flow_id, status="waiting", wake_at=now + one % 600))
            batch.retries.append(_retry(flow_id, definition, one, now))
        elif place <= 20:
            batch.flows.append(FlowChange(flow_id=flow_id, status="waiting", wake_at=now + 3600))
        else:
            batch.flows.append(FlowChange(flow_id=flow_id, status="completed", finished_at=created_at))
    return batch


def _letter(flow_id: str, definition: str, one: int, at: float) -> DeadLetter:
    return DeadLetter(
        flow_id=flow_id,
        definition=definition,
        queue="default",
        at=at,
        kind="exhausted",
        step=f"step-{one % 7}",
        attempts=5,
        error_type=ERRORS[one % 3],
        message=f"the call to order {one} failed",
        payload="{}",
        dependency=DEPENDENCIES[one % 4],
    )


def _retry(flow_id: str, definition: str, one: int, now: float) -> RetryRow:
    is_held = one % 2 == 0
    return RetryRow(
        flow_id=flow_id,
        item=1,
        step=f"step-{one % 7}",
        queue="default",
        status="waiting",
        attempt_number=1,
        max_retries=4,
        timeout_seconds=None,
        timeout_retry_limit=None,
        backoff_kind="exponential",
        backoff_base_delay_ms=1000.0,
        retry_kind="deferred" if is_held else "exception",
        scheduled_at=now + one % 600,
        definition=definition,
        dependency=DEPENDENCIES[one % 4],
        waits_for="circuit" if is_held else "backoff",
        reason="the circuit of bank is open" if is_held else "",
        error_type=ERRORS[one % 3],
        since=now - one % 900,
    )


def _activity(minute: float) -> Iterator[ActivityRow]:
    for number in range(40):
        for outcome in ("succeeded", "retried", "gave_up"):
            yield ActivityRow(
                at=minute,
                definition=DEFINITIONS[number % 5],
                step=f"step-{number}",
                dependency=DEPENDENCIES[number % 4],
                outcome=outcome,
                count=5,
                seconds=1.0,
            )


def looks(store: Store, now: float) -> dict[str, Callable[[], Awaitable[object]]]:
    """What each view asks."""

    async def show_overview() -> None:
        overview(await observe(store, now))

    def listed(**filters: object) -> Callable[[], Awaitable[object]]:
        async def look() -> None:
            found = await store.list_flows(FlowQuery(limit=51, **filters))  # type: ignore[arg-type]  # any of its fields
            await store.list_retries(RetryQuery(flow_ids=tuple(flow.id for flow in found), limit=10_000))

        return look

    async def of_dependencies() -> None:
        await store.group_retries()
        await store.group_dead_letters(DeadQuery())
        await store.list_dependency_orders()
        await store.read_activity(ActivityQuery(since=now - 3600, by=("dependency",)))

    async def of_definitions() -> None:
        await store.count_flows()
        await store.group_dead_letters(DeadQuery())
        await store.read_activity(ActivityQuery(since=now - 3600, by=("definition", "step", "dependency")))

    return {
        "overview": show_overview,
        "newest": listed(),
        "retrying": listed(retrying=True),
        "dependency": listed(dependency="bank"),
        "error": listed(error_type="httpx.ReadTimeout"),
        "waits_for": listed(waits_for="circuit"),
        "failed": listed(status=("failed",)),
        "text": listed(text="order 99000"),
        "nothing": listed(text="nobody has this"),
        "count": lambda: store.count_matching_flows(FlowQuery(text="failed", limit=10_001)),
        "dead_groups": lambda: store.group_dead_letters(DeadQuery()),
        "dependencies": of_dependencies,
        "definitions": of_definitions,
    }


async def measure(address: str, flows: int) -> dict[str, float]:
    """Return how many milliseconds a look at each view takes."""
    now = float(int(SYSTEM_CLOCK.wall()))
    store = store_at(address)
    await store.open()
    try:
        await fill(store, flows, now)
        medians: dict[str, float] = {}
        for case, look in looks(store, now).items():
            await look()
            took = []
            for _ in range(LOOKS):
                began = time.perf_counter()
                await look()
                took.append(1000 * (time.perf_counter() - began))
            medians[case] = statistics.median(took)
        return medians
    finally:
        await store.close()


def main() -> None:
    options = arguments(__doc__ or "")
    flows = FLOWS // 10 if options.quick else FLOWS
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, progress(2) as bar:
        server = PostgresServer(durable=True)
        addresses = {
            "SQLite": f"sqlite:///{Path(folder) / 'bench.db'}",
            "PostgreSQL": server.fresh_database(),
        }
        for name, address in addresses.items():
            step(bar, name)
            for case, value in asyncio.run(measure(address, flows)).items():
                figures.append(Figure(system=f"{OURS} on {name}", case=case, value=value, unit="ms"))
    cases = [Case(name=name, unit="ms", what=what, compared=False) for name, what in CASES.items()]
    budgets = [_budget(figures, system, f"{OURS} on {system}") for system in ("SQLite", "PostgreSQL")]
    outcome = Outcome(title=f"the dashboard over {flows:,} flows", cases=cases, figures=figures, budgets=budgets)
    show(outcome, options.json)


def _budget(figures: list[Figure], name: str, system: str) -> Budget:
    first = value_of(figures, system, "overview") or 0.0
    worst = max(one.value for one in figures if one.system == system and one.case != "overview")
    return Budget(
        what=f"{name}: the overview within {OVERVIEW_BUDGET:.0f} ms, everything else within {LIST_BUDGET:.0f} ms",
        measured=f"{first:.0f} ms and {worst:.0f} ms",
        met=first < OVERVIEW_BUDGET and worst < LIST_BUDGET,
    )


if __name__ == "__main__":
    main()
