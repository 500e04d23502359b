"""What a claim costs with few and with many waiting flows: `python -m benchmarks.claims [--json] [--quick]`.

Each claim takes 50 flows, and these end before the next one. The queue has no settings; or its flows have 10,000
concurrency keys, at most two flows of each may run, and each may begin 10 in a minute.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, progress, show, step
from redrive.assembly import store_at
from redrive.stores.interface import Store
from redrive.stores.leases import NewWorker
from redrive.stores.records import Batch, FlowChange, NewFlow

CLAIMED, ROUNDS = 50, 60
FEW = 2_000
KEYS = 10_000
FLAT = 1.5
WORK, NOW = "workflow:Work", 1_700_000_000.0

PLAIN = Case(name="plain_ms", unit="ms", what=f"a claim of {CLAIMED} flows of a queue without settings", compared=False)
KEYED = Case(
    name="keyed_ms",
    unit="ms",
    what=f"the same with {KEYS} keys (few flows: {FEW} keys), two flows each",
    compared=False,
)
RATED = Case(name="rated_ms", unit="ms", what="the same, each key also with a rate", compared=False)
SETTINGS: Mapping[Case, Mapping[str, Any]] = {
    PLAIN: {},
    KEYED: {"per_key": 2},
    RATED: {"per_key": 2, "key_rate": "10/m"},
}


async def fill(store: Store, name: str, first: int, number: int, keyed: bool) -> None:
    """Add flows to the queue of that name."""
    for start in range(first, first + number, 5_000):
        await store.add_flows(
            [
                NewFlow(
                    id=f"{name}-{n:08}",
                    definition=WORK,
                    input="{}",
                    created_at=NOW + n / 1e6,
                    start_at=NOW + n / 1e6,
                    queue=name,
                    concurrency_key=f"tenant-{n % KEYS}" if keyed else None,
                )
                for n in range(start, min(start + 5_000, first + number))
            ]
        )


async def claims(store: Store, queue: str, began: float) -> float:
    """Return how many milliseconds a claim takes, the median."""
    lease = await store.acquire_lease(NewWorker(name="benchmark:1", definitions=(WORK,)), 3_600)
    taken: list[float] = []
    for number in range(ROUNDS + 5):
        now = began + number
        start = perf_counter()
        claimed = await store.claim(lease, [WORK], [queue], CLAIMED, now)
        taken.append((perf_counter() - start) * 1000)
        assert len(claimed.flows) == CLAIMED
        ended = [FlowChange(flow_id=one.id, status="completed", finished_at=now) for one in claimed.flows]
        await store.commit(lease, Batch(number=number + 1, flows=ended))
    await store.release_lease(lease)
    return median(taken[5:])


async def measure(address: str, many: int, bar: Any) -> dict[tuple[str, int], float]:
    """Milliseconds by the name of the case and the number of flows."""
    store = store_at(address)
    await store.open()
    found: dict[tuple[str, int], float] = {}
    try:
        for case, settings in SETTINGS.items():
            step(bar, f"{address.partition(':')[0]}, {case.name}")
            queue, keyed = case.name, bool(settings)
            await store.configure_queue(queue, settings)
            await fill(store, queue, 0, FEW + (ROUNDS + 5) * CLAIMED, keyed)
            found[case.name, FEW] = await claims(store, queue, NOW + 100)
            await fill(store, queue, 1_000_000, many, keyed)
            found[case.name, many] = await claims(store, queue, NOW + 1_000)
    finally:
        await store.close()
    return found


def main() -> None:
    options = arguments("What a claim costs with few and with many waiting flows.")
    from tests.postgres_server import PostgresServer

    many, figures, budgets = 20_000 if options.quick else 1_000_000, [], []
    server = PostgresServer(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="redrive-claims-") as folder, progress(2 * len(SETTINGS)) as bar:
            stores = {"SQLite": f"sqlite:///{folder}/claims.db", "PostgreSQL": server.fresh_database()}
            for system, address in stores.items():
                found = asyncio.run(measure(address, many, bar))
                for (case, number), value in found.items():
                    figures.append(Figure(system=f"{system}, {number:,}", case=case, value=value, unit="ms"))
                budgets += [
                    Budget(
                        what=f"{system}: {case.name} with {many:,} flows at most {FLAT} times as long",
                        measured=f"{ratio:.2f}",
                        met=ratio <= FLAT,
                    )
                    for case in SETTINGS
                    for ratio in [found[case.name, many] / found[case.name, FEW]]
                ]
    finally:
        server.remove()
    outcome = Outcome(title="claims", cases=list(SETTINGS), figures=figures, budgets=budgets)
    show(outcome, options.json)


if __name__ == "__main__":
    main()
