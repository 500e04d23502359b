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
from redrive.errors import KeyTakenError
from redrive.stores.records import FlowQuery
from redrive.testing import FlowApp, flow_app

pytestmark = pytest.mark.promise("E8")

BEGUN: list[tuple[str, float]] = []
RUNNING: Counter[str] = Counter()
MOST: Counter[str] = Counter()
FAILS: set[str] = set()
GATES: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    for one in (BEGUN, RUNNING, MOST, FAILS, GATES):
        one.clear()


@action(name="queue_settings.work", retry=RetryPolicy(attempts=3, backoff_seconds=20))
async def work(tenant: str, seconds: float = 1.0) -> str:
    BEGUN.append((tenant, current_clock().monotonic()))
    if tenant in FAILS:
        FAILS.discard(tenant)
        raise ConnectionError("away")
    if tenant in GATES:
        await GATES[tenant].wait()
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


def test_explain_says_whose_turn_and_which_rate_a_flow_waits_for() -> None:
    async def scenario(app: FlowApp) -> None:
        await app.configure_queue("mail", per_key=1)
        await app.configure_queue("paced", rate="100/m", key_rate="1/h")
        with app.clock.frozen():
            gate = GATES["acme"] = asyncio.Event()
            await app.start(work("acme"), queue="mail", concurrency_key="acme")
            second = await app.start(work("acme"), queue="mail", concurrency_key="acme")
            while not BEGUN:  # noqa: ASYNC110 - the action runs in the worker's task
                await asyncio.sleep(0.001)
            told = (await app.explain(second.id)).headline
            assert told == "ready, but waits for its turn: 1 of 1 flows of acme run in queue mail"
            gate.set()
            paced = [await app.start(work("x"), queue="paced", concurrency_key=key) for key in ("a", "a", "b")]
            await app.settled(paced[0])
            headlines = {(await app.explain(one.id)).headline for one in paced[1:]}
            assert headlines == {
                "ready, but waits for the rate of a in queue paced, 1/h: the next flow begins in 1h",
                "ready, but waits for the rate of queue paced, 100/m: the next flow begins in 600ms",
            }
            app.clock.advance(0.6)
            await app.settled(paced[2])
            headline = (await app.explain(paced[1].id)).headline
            assert headline.startswith(
                "ready, but waits for the rate of a in queue paced, 1/h: the next flow begins in 59m"
            )

    played(scenario)


def test_a_key_is_unique_for_a_time() -> None:
    async def scenario(app: FlowApp) -> None:
        first = await app.start(work("a"), key="refresh", unique_for="10m")
        again = await app.start(work("a"), key="refresh", unique_for="10m")
        assert (again.id, again.is_new) == (first.id, False)
        with pytest.raises(KeyTakenError):
            await app.start(work("other"), key="refresh", unique_for="10m")
        app.clock.advance(600)
        later = await asyncio.gather(*(app.start(work("other"), key="refresh", unique_for="10m") for _ in range(3)))
        assert len({one.id for one in later}) == 1
        assert later[0].id != first.id
        assert [one.id for one in await app.flows(FlowQuery(key="refresh"))] == [later[0].id]
        assert await later[0].result() == "other"

    played(scenario)


def test_a_debounced_start_begins_once_with_the_last_input() -> None:
    async def scenario(app: FlowApp) -> None:
        began = app.clock.monotonic()
        with app.clock.frozen():
            handles = []
            for one in range(3):
                handles.append(await app.start(work(f"input {one}"), key="save", debounce="30s"))
                app.clock.advance(20)
        assert len({one.id for one in handles}) == 1
        assert await handles[0].result() == "input 2"
        assert [(tenant, round(at - began)) for tenant, at in BEGUN] == [("input 2", 70)]
        after = await app.start(work("after"), key="save", debounce="30s")
        assert after.id != handles[0].id
        assert await after.result() == "after"

    played(scenario)


def test_a_debounced_start_begins_after_ten_times_its_wait_at_the_latest() -> None:
    async def scenario(app: FlowApp) -> None:
        began = app.clock.monotonic()
        with app.clock.frozen():
            for one in range(25):
                handle = await app.start(work(str(one)), key="save", debounce="10s")
                app.clock.advance(5)
                await app.settled(handle)
        assert BEGUN
        assert round(BEGUN[0][1] - began) == 100

    played(scenario)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"unique_for": "10m"}, "unique_for: it needs a key"),
        ({"debounce": "10s"}, "debounce: it needs a key"),
        ({"key": "k", "debounce": "10s", "unique_for": "1m"}, "exclude each other"),
        ({"key": "k", "debounce": "10s", "delay": 5}, "start it without delay="),
        ({"key": "k", "unique_for": 0}, "unique_for: use a time of more than 0"),
        ({"key": "k", "unique_for": "1m", "connection": object()}, "start the flow without connection="),
    ],
)
def test_what_a_key_cannot_mean_is_refused(settings: dict[str, Any], told: str) -> None:
    async def scenario(app: FlowApp) -> None:
        with pytest.raises(ValueError, match=told):
            await app.start(work("a"), **settings)

    played(scenario)
