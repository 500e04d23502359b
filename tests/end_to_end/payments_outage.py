"""A graph whose payments are down for a while."""

from typing import Any

import redrive
from redrive import RetryPolicy, action
from redrive.determinism.clock import current_clock
from redrive.flows.graphs.graph import Graph
from redrive.testing import FlowApp

ITEMS = 12
OPENS_AFTER = 5
OUTAGE = 75.0
CALLED: list[float] = []
BACK_AT: list[float] = [0.0]


@action(name="circuits.charge")
async def charge(order: int) -> int:
    now = current_clock().wall()
    CALLED.append(now)
    if now < BACK_AT[0]:
        raise ConnectionError("the payment service is down")
    return order * 10


def orders(parallelism: int | None) -> Graph:
    return Graph("circuit").step(
        "charge",
        charge,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"paid": "integer"},
        parallelism=parallelism,
        dependency="payments",
        retry=RetryPolicy(attempts=4, backoff_seconds=1),
    )


async def start_in_outage(app: FlowApp, graph: Graph) -> redrive.Handle[Any]:
    CALLED.clear()
    BACK_AT[0] = app.clock.wall() + OUTAGE
    redrive.register_graph(graph)
    return await app.start(graph.call({"orders": list(range(ITEMS))}))
