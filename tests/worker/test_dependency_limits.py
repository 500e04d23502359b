"""The limits of a dependency hold for durable work: what exceeds them waits, and no attempt is spent."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import redrive
from redrive import Graph, RetryPolicy, Workflow, action, define_dependency, workflow
from redrive.determinism.clock import current_clock
from redrive.explain.explanation import explain_text
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.events import AttemptFailed, ItemDeferred
from redrive.policies.policy import DEFAULT_POLICY
from redrive.resilience.circuit import CircuitSettings
from redrive.resilience.dependencies import Dependencies
from redrive.resilience.limits import LimitSettings
from redrive.testing import FlowApp, flow_app
from redrive.worker.dependency_guard import Deferred, DependencyGuard

DOWN = DEFAULT_CLASSIFIER.failure_of(ConnectionError("away"), 0.0)
REACHED = "the limit of 2 requests per minute of geocoder is reached"
CALLS: list[tuple[float, int]] = []
FAILS: list[int] = []


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    CALLS.clear()
    FAILS.clear()
    define_dependency("geocoder", limits=LimitSettings(requests_per_minute=2))
    yield
    define_dependency("geocoder")


def locate(order: int) -> int:
    CALLS.append((current_clock().monotonic(), order))
    if order in FAILS:
        FAILS.remove(order)
        raise ConnectionError("away")
    return order


@action(name="limited.ask", dependency="geocoder", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def ask(order: int) -> int:
    return locate(order)


@action(name="limited.ask_slowly", dependency="geocoder", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def ask_slowly(order: int) -> int:
    await current_clock().asleep_until(current_clock().monotonic() + 1)
    return locate(order)


@action(name="limited.ask_in_thread", dependency="geocoder")
def ask_in_thread(order: int) -> int:
    return locate(order)


@action(name="limited.guarded", dependency="geocoder")
async def guarded(order: int) -> int:
    return await redrive.Retrier(dependency="geocoder").acall(later, order)


async def later(order: int) -> int:
    return locate(order)


@workflow(name="limited.Order")
class Order(Workflow):
    async def run(self, order: int) -> int:
        return await ask(order)


STEP = Graph("limited").step("ask", ask, inputs={"order": "integer"}, outputs={"place": "integer"})
FLOWS: dict[str, Callable[[int], Any]] = {
    "job": ask,
    "thread": ask_in_thread,
    "workflow": Order.call,
    "step": lambda order: STEP.call({"order": order}),
}


def most_in_a_minute() -> int:
    times = [when for when, _ in CALLS]
    return max(sum(begin <= when < begin + 60 for when in times) for begin in times)


async def begin(app: FlowApp, call: Callable[[int], Any], count: int) -> list[Any]:
    """Start flows one after the other: each has begun, or waits, before the next one is started."""
    handles = []
    with app.clock.frozen():
        for order in range(count):
            handles.append(await app.start(call(order)))
            await app.settled(handles[-1])
    return handles


async def events(app: FlowApp, handles: list[Any], kind: type) -> list[Any]:
    return [line.event for handle in handles for line in await app.log(handle.id) if isinstance(line.event, kind)]


@pytest.mark.parametrize("which", FLOWS)
def test_two_of_six_flows_begin_each_minute_and_in_order(which: str, address: str) -> None:
    async def story() -> None:
        async with flow_app(address) as app:
            handles = await begin(app, FLOWS[which], 6)
            outcomes = [await app.outcome(handle) for handle in handles]
            assert [one.status for one in outcomes] == ["completed"] * 6
            # Waiting spends no attempt, and is logged once.
            assert [one.attempts for one in outcomes] == [{1: 1}] * 6
            assert [event.reason for event in await events(app, handles, ItemDeferred)] == [REACHED] * 4

    asyncio.run(story())
    times = [when - CALLS[0][0] for when, _ in CALLS]
    assert [round(time / 61) for time in times] == [0, 0, 1, 1, 2, 2]
    assert times[-1] < 125
    assert most_in_a_minute() == 2
    assert [order for _, order in CALLS] == [0, 1, 2, 3, 4, 5]


def test_explain_and_the_retry_queue_give_the_reason(address: str) -> None:
    async def story() -> None:
        async with flow_app(address) as app:
            handles = await begin(app, ask, 3)
            with app.clock.frozen():
                text = explain_text(await app.explain(handles[2].id))
                (row,) = await app.retries()
            assert REACHED in text
            assert row.flow_id == handles[2].id
            assert (row.retry_kind, row.attempt_number) == ("deferred", 0)
            assert row.scheduled_at - app.clock.wall() > 59
            await app.outcome(handles[2])

    asyncio.run(story())


def test_a_retry_is_a_request_too_and_waits_without_an_attempt() -> None:
    FAILS.append(0)

    async def story() -> None:
        async with flow_app() as app:
            handles = await begin(app, ask, 2)
            outcomes = [await app.outcome(handle) for handle in handles]
            assert [one.attempts for one in outcomes] == [{1: 2}, {1: 1}]
            assert len(await events(app, handles, AttemptFailed)) == 1

    asyncio.run(story())
    assert CALLS[2][0] - CALLS[0][0] > 60


def test_a_guarded_call_inside_does_not_count_the_request_again() -> None:
    async def story() -> None:
        async with flow_app() as app:
            for handle in await begin(app, guarded, 4):
                assert (await app.outcome(handle)).status == "completed"

    asyncio.run(story())
    assert [round((when - CALLS[0][0]) / 61) for when, _ in CALLS] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("flows", "count", "limit", "seconds", "wakes"),
    # At best, as many as the limit begin at once, and as many every 61 seconds thereafter.
    [
        pytest.param(1000, 300, 60, 4 * 61 + 1, 2.0, id="all in memory"),
        pytest.param(10, 300, 60, 5 * 61, 2.5, id="few in memory"),
        pytest.param(10, 200, 6, 33 * 61 + 1, 4.5, id="more than begin before they ask again"),
    ],
)
def test_many_items_begin_in_order_and_seldom_wake_in_vain(
    flows: int, count: int, limit: int, seconds: float, wakes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    define_dependency("geocoder", limits=LimitSettings(requests_per_minute=limit))
    asked, really = [], DependencyGuard.admit

    def admit(guard: DependencyGuard, *args: Any, **options: Any) -> None:
        asked.append(args)
        really(guard, *args, **options)

    monkeypatch.setattr(DependencyGuard, "admit", admit)

    async def story() -> None:
        async with flow_app(flows=flows) as app:
            handles = await begin(app, ask, count)
            for handle in handles:
                assert (await app.outcome(handle)).status == "completed"
            waits = [
                line.event.until - line.at
                for handle in handles
                for line in await app.log(handle.id)
                if isinstance(line.event, ItemDeferred)
            ]
            assert len(waits) == count - limit
            assert max(waits) <= 600, "soon enough to notice that a limit was raised"

    asyncio.run(story())
    assert most_in_a_minute() == limit
    assert CALLS[-1][0] - CALLS[0][0] < seconds
    assert [order for _, order in CALLS] == list(range(count))
    assert len(asked) < count * wakes


def test_retries_that_a_limit_holds_back_in_a_recovery_need_no_budget() -> None:
    circuit, limits = CircuitSettings(failures=5, cooldown=10.0), LimitSettings(requests_per_minute=60)
    define_dependency("geocoder", circuit=circuit, limits=limits)
    FAILS.extend(range(40))

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handles = [await app.start(ask_slowly(order)) for order in range(40)]
            assert [(await app.outcome(handle)).attempts for handle in handles] == [{1: 2}] * 40
            reasons = {event.reason for event in await events(app, handles, ItemDeferred)}
            assert any("limit of 60 requests" in reason for reason in reasons)
            assert not any("budget" in reason for reason in reasons)

    asyncio.run(story())
    # The second minute has room for those that the first one has not.
    assert CALLS[-1][0] - CALLS[0][0] < 2 * 61


def test_cancelled_flows_leave_their_turn_to_the_others() -> None:
    async def story() -> None:
        async with flow_app() as app:
            handles = await begin(app, ask, 6)
            for handle in handles[2:4]:
                await handle.cancel(force=True)
            for handle in handles[4:]:
                assert (await app.outcome(handle)).status == "completed"

    asyncio.run(story())
    assert [round((when - CALLS[0][0]) / 61) for when, _ in CALLS] == [0, 0, 1, 1]


def test_a_worker_that_dies_while_flows_wait_for_a_limit_loses_nothing(address: str) -> None:
    async def story() -> None:
        async with flow_app(address) as app:
            handles = await begin(app, ask, 6)
            await app.kill()
            app.revive()
            assert [(await app.outcome(handle)).attempts for handle in handles] == [{1: 1}] * 6

    asyncio.run(story())
    assert most_in_a_minute() == 2, "the circuits and limits are those of the process"


def test_a_limit_that_is_lifted_holds_nobody_back() -> None:
    async def story() -> float:
        async with flow_app() as app:
            handles = await begin(app, ask, 6)
            define_dependency("geocoder")
            began = app.clock.now
            for handle in handles:
                assert (await app.outcome(handle)).status == "completed"
            return app.clock.now - began

    assert asyncio.run(story()) < 62, "the others would have to wait twice as long"


# The guard


def test_one_that_began_counts_however_it_ended() -> None:
    guard = DependencyGuard(lambda: 0.0)
    for item in (1, 2):
        guard.admit(("flow", item), "geocoder", retry=False, now=0.0)
    guard.ignored(("flow", 1), 1.0)
    guard.succeeded(("flow", 2), 1.0)
    with pytest.raises(Deferred, match=REACHED) as held_back:
        guard.admit(("flow", 3), "geocoder", retry=False, now=2.0)
    assert held_back.value.until == 61.0
    with pytest.raises(Deferred, match=REACHED) as soon:
        guard.admit(("flow", 3), "geocoder", retry=False, now=60.5)
    assert soon.value.until == 61.5, "it does not ask again at once"
    assert not guard.permits
    guard.admit(("flow", 3), "geocoder", retry=False, now=61.0)


def test_a_newcomer_does_not_take_the_room_of_those_in_line() -> None:
    now, alarms = [0.0], list[Callable[[], None]]()

    def alarm(when: float, ring: Callable[[], None]) -> Callable[[], None]:
        alarms.append(ring)
        return lambda: None

    guard = DependencyGuard(lambda: 0.0, monotonic=lambda: now[0], alarm=alarm, most_in_line=9)

    def ask(item: int) -> bool:
        guard.admit(("flow", item), "geocoder", retry=False, now=now[0])
        return True

    ask(1)
    ask(2)
    with pytest.raises(Deferred, match=REACHED) as held_back:
        ask(3)
    assert held_back.value.line is not None
    assert held_back.value.line.join(("flow", 3), lambda: ask(3))
    now[0] = 61.0
    with pytest.raises(Deferred, match=REACHED) as behind:
        ask(4)
    assert 61 < behind.value.until <= 61 + 60 / 2
    alarms[-1]()
    assert ("flow", 3) in guard.permits
    ask(4)


def test_a_retry_that_a_limit_holds_back_costs_no_budget_and_takes_no_probe() -> None:
    define_dependency(
        "geocoder",
        circuit=CircuitSettings(failures=2, cooldown=10.0),
        limits=LimitSettings(requests_per_minute=2),
    )
    guard = DependencyGuard(lambda: 0.0)
    for item in (1, 2):
        guard.admit(("flow", item), "geocoder", retry=False, now=0.0)
        guard.failed(("flow", item), DEFAULT_POLICY, DOWN, 0.0)
    budget = guard.dependencies.get("geocoder").budget
    assert budget is not None
    left = budget.left(0.0)
    with pytest.raises(Deferred, match="the circuit of geocoder is open"):
        guard.admit(("flow", 3), "geocoder", retry=True, now=1.0)
    # The probe is due, but the limit has no room yet.
    with pytest.raises(Deferred, match=REACHED):
        guard.admit(("flow", 3), "geocoder", retry=True, now=20.0)
    assert budget.left(20.0) == left
    assert guard.dependencies.get("geocoder").circuit.state.phase == "open"  # type: ignore[union-attr]
    guard.admit(("flow", 3), "geocoder", retry=True, now=62.0)


def test_limits_of_tokens_and_cost_do_not_hold_requests_back() -> None:
    define_dependency("geocoder", limits=LimitSettings(tokens_per_minute=1, cost_per_day=0.1))
    guard = DependencyGuard(lambda: 0.0)
    for item in range(100):
        guard.admit(("flow", item), "geocoder", retry=False, now=0.0)


def test_a_dependency_with_limits_makes_no_room_for_others() -> None:
    like = Dependencies()
    like.define("geocoder", limits=LimitSettings(requests_per_minute=2))
    steps = Dependencies(limit=2, like=like)
    limits = steps.get("geocoder").limits
    assert limits is not None
    for number in range(5):
        steps.get(f"other {number}")
    assert steps.get("geocoder").limits is limits
    assert limits is not like.get("geocoder").limits
