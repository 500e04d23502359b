"""Flow control as users meet it: tenants share limits and take turns, rates spread flows, under the virtual clock."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.worker.quick_app import opened

from redrive import RetryPolicy, action
from redrive.client.app import App
from redrive.determinism.clock import current_clock
from redrive.testing import FlowApp, flow_app

pytestmark = pytest.mark.promise("E8")

BEGUN: list[tuple[str, float]] = []
RUNNING: Counter[str] = Counter()
MOST: Counter[str] = Counter()
FAILS: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    for one in (BEGUN, RUNNING, MOST, FAILS):
        one.clear()


@action(name="queue_settings.work", retry=RetryPolicy(attempts=3, backoff_seconds=20))
async def work(tenant: str, seconds: float = 1.0) -> str:
    BEGUN.append((tenant, current_clock().monotonic()))
    if tenant in FAILS:
        FAILS.discard(tenant)
        raise ConnectionError("away")
    RUNNING[tenant] += 1
    MOST[tenant] = max(MOST[tenant], RUNNING[tenant])
    await asyncio.sleep(seconds)
    RUNNING[tenant] -= 1
    return tenant


def played(scenario: Callable[[FlowApp], Awaitable[None]]) -> None:
    async def play() -> None:
        async with flow_app() as app:
            await scenario(app)

    asyncio.run(play())


def test_no_more_flows_of_a_tenant_run_at_once_than_its_limit(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            await app.configure_queue("mail", per_key=2, limit=5)
            tenants = ["acme"] * 12 + ["tiny", "small"] * 3
            handles = [await app.start(work(tenant, 0.01), queue="mail", concurrency_key=tenant) for tenant in tenants]
            assert [await handle.result(timeout=30) for handle in handles] == tenants
        assert max(MOST.values()) <= 2

    asyncio.run(scenario())


def test_a_tenant_with_many_flows_delays_another_by_one_round() -> None:
    async def scenario(app: FlowApp) -> None:
        await app.configure_queue("mail", limit=1)
        with app.clock.frozen():
            for _ in range(50):
                await app.start(work("acme"), queue="mail", concurrency_key="acme")
            last = await app.start(work("tiny"), queue="mail", concurrency_key="tiny")
        await last.result()
        assert Counter(tenant for tenant, _ in BEGUN)["acme"] <= 2

    played(scenario)


def test_a_rate_spreads_what_begins_and_not_what_is_tried_again() -> None:
    async def scenario(app: FlowApp) -> None:
        await app.configure_queue("mail", rate="6/m")
        FAILS.add("2")
        with app.clock.frozen():
            began = app.clock.monotonic()
            handles = [await app.start(work(str(one)), queue="mail") for one in range(5)]
        for handle in handles:
            await handle.result()
        first: dict[str, float] = {}
        for tenant, at in BEGUN:
            first.setdefault(tenant, round(at - began, 1))
        assert sorted(first.values()) == [0, 10, 20, 30, 40]
        assert len(BEGUN) == 6, "one was tried again, 20 s later, between the beginnings"

    played(scenario)


def test_a_rate_per_tenant_leaves_others_alone() -> None:
    async def scenario(app: FlowApp) -> None:
        await app.configure_queue("mail", key_rate="2/m")
        with app.clock.frozen():
            began = app.clock.monotonic()
            handles = [
                await app.start(work(tenant), queue="mail", concurrency_key=tenant)
                for tenant in ["acme"] * 3 + ["tiny"]
            ]
        for handle in handles:
            await handle.result()
        assert sorted((tenant, round(at - began)) for tenant, at in BEGUN) == [
            ("acme", 0),
            ("acme", 30),
            ("acme", 60),
            ("tiny", 0),
        ]

    played(scenario)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"per_key": 0}, "per_key: 0 is not allowed; use a whole number"),
        ({"rate": "fast"}, "rate: 'fast' is not a rate; write how many in which time"),
        ({"rate": 5}, "rate: 5 is not a rate"),
        ({"key_rate": "0/s"}, "key_rate: '0/s': use 1 to"),
        ({"aging": "later"}, "aging: 'later'"),
        ({"aging": 0}, "aging: use a time from 1 ms"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    async def scenario(app: App) -> None:
        with pytest.raises(ValueError, match=told):
            await app.configure_queue("mail", **changes)
        assert await app.queues() == []

    played(scenario)


def test_an_unknown_setting_and_a_wrong_key_are_refused() -> None:
    wrong: Any = {"perkey": 2}
    keys: list[Any] = ["", "a\nb", "x" * 201, 5]

    async def scenario(app: App) -> None:
        with pytest.raises(TypeError, match="per_key"):
            await app.configure_queue("mail", **wrong)
        for key in keys:
            with pytest.raises(ValueError, match="concurrency_key: use a text"):
                await app.start(work("a"), concurrency_key=key)

    played(scenario)
