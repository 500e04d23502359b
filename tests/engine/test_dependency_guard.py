"""What holds durable work back takes nothing away from the others."""

import asyncio

import pytest

import redrive
from redrive import action
from redrive.engine.dependency_guard import Deferred, DependencyGuard
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.graphs.builder import Graph
from redrive.retry.policy import DEFAULT_POLICY

DOWN = DEFAULT_CLASSIFIER.failure_of(ConnectionError("away"), 0.0)


def opened() -> DependencyGuard:
    """A guard whose circuit is open, and whose retry budget is spent."""
    guard = DependencyGuard(lambda: 0.0)
    for item in range(5):
        guard.admit(("flow", item), "bank", retry=False, now=0.0)
        guard.failed(("flow", item), DEFAULT_POLICY, DOWN, 0.0)
    budget = guard.dependencies.get("bank").budget
    assert budget is not None
    while budget.reserve_retry(0.0) is not None:
        pass
    return guard


@pytest.mark.promise("P13", "P14")
def test_a_retry_that_the_budget_holds_back_leaves_the_probe_to_another() -> None:
    guard = opened()
    with pytest.raises(Deferred, match="circuit"):
        guard.admit(("flow", 7), "bank", retry=False, now=1.0)
    with pytest.raises(Deferred, match="budget"):
        guard.admit(("flow", 8), "bank", retry=True, now=31.0)
    guard.admit(("flow", 9), "bank", retry=False, now=31.0)
    guard.succeeded(("flow", 9), 32.0)
    guard.admit(("flow", 10), "bank", retry=False, now=32.0)


@pytest.mark.promise("P14")
def test_a_retry_that_the_circuit_holds_back_costs_no_budget() -> None:
    guard = DependencyGuard(lambda: 0.0)
    for item in range(5):
        guard.admit(("flow", item), "bank", retry=False, now=0.0)
        guard.failed(("flow", item), DEFAULT_POLICY, DOWN, 0.0)
    budget = guard.dependencies.get("bank").budget
    assert budget is not None
    left = budget.left(1.0)
    with pytest.raises(Deferred, match="circuit"):
        guard.admit(("flow", 7), "bank", retry=True, now=1.0)
    assert budget.left(1.0) == left


@pytest.mark.parametrize("how", ["cancel", "pause", "force"])
def test_items_that_stood_in_line_give_back_the_leave_they_had(how: str) -> None:
    @action(name=f"guard.charge_{how}")
    async def charge(order: int) -> int:
        await asyncio.Event().wait()
        return order

    graph = Graph(f"guard-{how}").step(
        "charge",
        charge,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"paid": "integer"},
        dependency="payments",
    )

    async def scenario() -> None:
        async with redrive.open("memory://", concurrency=1, grace=0.0, poll=0.01) as app:
            handle = await app.start_graph(graph, {"orders": [1, 2, 3]})
            while app._worker is None or len(app._worker.guard.permits) < 3:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
            if how == "pause":
                await handle.pause()
            else:
                await handle.cancel(force=how == "force")
            left = {"pause": 1}.get(how, 0)
            async with asyncio.timeout(10):
                while len(app._worker.guard.permits) > left:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.001)

    asyncio.run(scenario())
