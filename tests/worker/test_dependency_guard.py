"""What holds durable work back takes nothing away from the others."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.determinism.clock import current_clock
from redrive.errors import FlowCancelledError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.events import AttemptReturned, CancelRequested, FlowCancelled, ItemDeferred, ItemQueued
from redrive.flows.graphs.graph import Graph
from redrive.policies.policy import DEFAULT_POLICY
from redrive.resilience.circuit import CircuitSettings
from redrive.telemetry.events import CircuitChanged
from redrive.telemetry.stream import listen
from redrive.testing import VirtualClock, flow_app, run_flow
from redrive.worker.dependency_guard import Deferred, DependencyGuard

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


@pytest.mark.promise("P13")
def test_items_that_stand_in_line_for_a_place_when_the_circuit_opens_are_put_off() -> None:
    @action(name="guard.charge")
    async def charge(order: int) -> int:
        raise ConnectionError("away")

    graph = Graph("guard-line").step(
        "charge",
        charge,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"paid": "integer"},
        dependency="payments",
    )

    async def story() -> None:
        async with flow_app(concurrency=1) as app:
            with app.clock.frozen():
                flow = await app.start(graph.call({"orders": list(range(20))}))
                await app.settled(flow)
                assert len(app.witness.executed) == 5
                log = [line.event for line in await app.log(flow.id)]
            assert sum(isinstance(event, ItemDeferred) for event in log) == 15
            await flow.cancel(force=True)
            assert (await app.outcome(flow)).status == "cancelled"

    asyncio.run(story())


def test_items_that_stand_in_line_for_a_place_have_no_leave_to_call_yet() -> None:
    """The probe is for whoever can make it: what stands in line may be cancelled, or built anew."""

    @action(name="guard.hold")
    async def hold(order: int) -> int:
        await asyncio.Event().wait()
        return order

    graph = Graph("guard-hold").step(
        "hold",
        hold,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"held": "integer"},
        dependency="payments",
    )

    async def scenario() -> None:
        async with redrive.open("memory://", concurrency=1, grace=0.0, poll=0.01) as app:
            await app.start(graph.call({"orders": [1, 2, 3]}))
            async with asyncio.timeout(10):
                while app._worker is None or not app._worker.slots.has_waiters:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            assert [item for _, item in app._worker.guard.permits] == [1]

    asyncio.run(scenario())


def test_the_place_of_an_attempt_that_its_flow_stops_as_it_ends_does_not_go_to_that_flow() -> None:
    runs = []

    @action(name="guard.early")
    async def early(order: int) -> int:
        raise ConnectionError("away")

    @action(name="guard.late")
    async def late(order: int) -> int:
        runs.append(order)
        await asyncio.Event().wait()
        return order

    retry = redrive.RetryPolicy(attempts=9, backoff_seconds=0.01)
    graph = (
        Graph("guard-end")
        .step("early", early, inputs={"order": "integer"}, outputs={"a": "integer"}, retry=retry)
        .step("late", late, inputs={"order": "integer"}, outputs={"b": "integer"})
    )

    async def scenario() -> None:
        async with redrive.open("memory://", concurrency=1, grace=0.0, poll=0.01) as app, asyncio.timeout(10):
            flow = await app.start(graph.call({"order": 1}))
            while not runs or app._worker is None or not app._worker.slots.has_waiters:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            await flow.cancel(force=True)
            with pytest.raises(FlowCancelledError):
                await flow.result()
            log = [type(line.event) for line in await app.log(flow.id)]
            assert log[-2:] == [CancelRequested, FlowCancelled]

    asyncio.run(scenario())


@pytest.mark.promise("P14")
def test_many_items_that_wait_for_the_budget_take_turns_and_do_not_fill_the_log() -> None:
    many, back_at = 40, 0.1

    @action(name="guard.refund")
    async def refund(order: int) -> int:
        if current_clock().monotonic() < back_at:
            raise ConnectionError("away")
        return order

    graph = Graph("guard-refunds").step(
        "refund",
        refund,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"paid": "integer"},
        retry=redrive.Policy(attempts=9, deadline=None),
        dependency="budgeted",
    )
    # With a circuit, its ramp would limit the retries instead.
    redrive.define_dependency("budgeted", circuit=CircuitSettings(failures=10_000))
    outcome = run_flow(graph.call({"orders": list(range(many))}))
    waited = [line.event for line in outcome.lines if isinstance(line.event, ItemDeferred)]
    for_budget = [event for event in waited if "budget" in event.reason]
    assert outcome.status == "completed"
    # Ten retries a minute: the last one has its turn after four minutes, and looks about once in each.
    assert many / 10 * 60 - 60 < outcome.duration < many / 10 * 60 + 120
    assert 0 < len(for_budget) < 4 * many


@pytest.mark.promise("P13")
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_circuit_is_open_for_its_time_though_the_calendar_is_set(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, really = [0.0], VirtualClock.wall
    monkeypatch.setattr(VirtualClock, "wall", lambda clock: really(clock) + ahead[0])

    @action(name="guard.collect")
    async def collect(order: int) -> int:
        if not ahead[0]:
            raise ConnectionError("away")
        return order

    graph = Graph("guard-collects").step(
        "collect",
        collect,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"paid": "integer"},
        retry=redrive.Policy(attempts=1),
        dependency="bank",
    )

    async def story() -> float:
        async with flow_app() as app:
            with app.clock.frozen():
                for order in range(5):
                    await app.settled(await app.start(graph.call({"orders": [order]})))
                ahead[0] = hours * 3600.0
                later, began = await app.start(graph.call({"orders": [6]})), app.clock.now
                await app.settled(later)
            assert (await app.outcome(later)).result == {"paid": [6]}
            return app.clock.now - began

    assert 30 <= asyncio.run(story()) <= 32


@pytest.mark.promise("P13")
def test_who_waits_for_a_probe_that_takes_long_looks_more_and_more_rarely() -> None:
    guard = opened()
    guard.admit(("flow", 9), "bank", retry=False, now=31.0)
    # It counts as lost after 30 s.
    assert list(times_of_asking(guard, 31.0)) == [31.0, 32.0, 34.0, 38.0, 46.0, 62.0]


def times_of_asking(guard: DependencyGuard, now: float) -> Iterator[float]:
    """Until it is let through."""
    while True:
        yield now
        try:
            guard.admit(("flow", 10), "bank", retry=False, now=now)
        except Deferred as deferred:
            now = deferred.until
        else:
            return


@pytest.mark.promise("P13")
def test_a_step_that_asks_to_come_back_later_does_not_open_the_circuit() -> None:
    """Not even where its policy retries anything: it says nothing about what was called."""
    asked = []

    @action(name="guard.poll")
    async def poll(order: int) -> int:
        asked.append(order)
        if len(asked) < 10:
            raise redrive.Snooze("1s")
        return order

    graph = Graph("guard-poll").step(
        "poll",
        poll,
        inputs={"order": "integer"},
        outputs={"paid": "integer"},
        retry=redrive.RetryPolicy(attempts=2),
        dependency="payments",
    )
    outcome = run_flow(graph.call({"order": 7}))
    assert outcome.result == {"paid": 7}
    assert outcome.duration == 9


@pytest.mark.promise("P13")
def test_a_step_has_the_settings_that_its_dependency_was_given_before_and_meanwhile() -> None:
    @action(name="guard.settled", retry=redrive.RetryPolicy(attempts=4, backoff_seconds=1))
    async def settled() -> None:
        if redrive.current_attempt().number == 2:
            redrive.define_dependency("well-known", circuit=CircuitSettings(failures=1, cooldown=100))
        if redrive.current_attempt().number < 4:
            raise ConnectionError("away")

    redrive.define_dependency("well-known", circuit=CircuitSettings(failures=1, cooldown=10))
    outcome = run_flow(Graph("guard-settled").step("settled", settled, dependency="well-known").call({}))
    assert outcome.status == "completed"
    deferred = [line.event.until - line.at for line in outcome.lines if isinstance(line.event, ItemDeferred)]
    # The second failure was told to the circuit that it asked; the third opens the one that began anew.
    assert [round(wait, -1) for wait in deferred] == [10, 100]


def test_an_attempt_from_before_its_dependency_was_defined_anew_has_no_say_about_the_new_circuit() -> None:
    told: list[object] = []
    guard = DependencyGuard(lambda: 0.0)
    redrive.define_dependency("defined-anew", circuit=CircuitSettings(failures=1))
    guard.admit(("flow", 1), "defined-anew", retry=False, now=0.0)
    redrive.define_dependency("defined-anew", circuit=CircuitSettings(failures=1, cooldown=10))
    guard.admit(("flow", 2), "defined-anew", retry=False, now=0.0)
    stop_listening = listen(told.append)
    try:
        guard.failed(("flow", 1), DEFAULT_POLICY, DOWN, 0.0)
        guard.admit(("flow", 3), "defined-anew", retry=False, now=0.0)
        assert told == []
        guard.failed(("flow", 2), DEFAULT_POLICY, DOWN, 0.0)
    finally:
        stop_listening()
    assert [type(event) for event in told] == [CircuitChanged]


def test_secrets_in_the_name_of_a_dependency_are_hidden_and_its_settings_are_found() -> None:
    @action(name="guard.addressed", retry=redrive.RetryPolicy(attempts=2, backoff_seconds=1))
    async def addressed() -> None:
        if redrive.current_attempt().number < 2:
            raise ConnectionError("away")

    address, told = "https://me:hunter2@api.example/v1", list[str]()
    redrive.define_dependency(address, circuit=CircuitSettings(failures=1, cooldown=10))
    stop_listening = listen(lambda event: told.append(repr(event)) if isinstance(event, CircuitChanged) else None)
    try:
        outcome = run_flow(Graph("guard-addressed").step("addressed", addressed, dependency=address).call({}))
    finally:
        stop_listening()
    reasons = [line.event.reason for line in outcome.lines if isinstance(line.event, ItemDeferred)]
    assert reasons == ["the circuit of https://***@api.example/v1 is open"]
    assert len(told) == 3
    assert "hunter2" not in "".join(told)


@pytest.mark.promise("P13")
def test_a_circuit_stays_open_when_the_worker_of_a_process_loses_its_lease_and_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else its last word in logs and metrics would be that it is open, for ever."""
    caplog.set_level(logging.INFO, "redrive")
    called = []

    @action(name="guard.ship")
    async def ship(order: int) -> int:
        called.append(order)
        raise ConnectionError("away")

    graph = Graph("guard-ship").step(
        "ship",
        ship,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"shipped": "integer"},
        dependency="payments",
    )

    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0, poll=0.01) as app, asyncio.timeout(10):
            flow = await app.start(graph.call({"orders": [1, 2, 3, 4, 5]}))
            while len(called) < 5:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
            lost = app._worker
            assert lost is not None
            assert lost.lease is not None
            await app.store.release_lease(lost.lease)
            await flow.pause()
            while app._worker is lost:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
            other = await app.start(graph.call({"orders": [6]}))
            while not (log := await app.log(other.id)):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
            assert [type(line.event) for line in log] == [ItemQueued, ItemDeferred]
            assert phases == ["open"]

    phases: list[str] = []
    stop_listening = listen(lambda event: phases.append(event.after) if isinstance(event, CircuitChanged) else None)
    try:
        asyncio.run(scenario())
    finally:
        stop_listening()
    # It is gone with its app, and the next app's is closed; that does not mean that the dependency is back.
    assert phases == ["open", "closed"]
    told = [record.getMessage().partition("circuit of payments: ")[2] for record in caplog.records]
    assert [line for line in told if line] == [
        "closed -> open after 5 consecutive failures",
        "it was open when its worker or app stopped",
    ]


@pytest.mark.promise("P14")
def test_what_is_put_back_to_work_by_hand_is_no_retry_to_the_budget() -> None:
    """Ten a minute are retried on a quiet dependency; whoever redrives forty dead letters does not wait for that."""
    key_is_good = False

    @action(name="guard.pay")
    async def pay(order: int) -> int:
        if not key_is_good:
            raise redrive.Permanent("bad key")
        return order

    graph = Graph("guard-pay").step(
        "pay", pay, inputs={"order": "integer"}, outputs={"paid": "integer"}, dependency="payments"
    )

    async def story() -> float:
        nonlocal key_is_good
        async with flow_app() as app:
            flows = [await app.start(graph.call({"order": order})) for order in range(40)]
            for flow in flows:
                assert (await app.outcome(flow)).status == "failed"
            key_is_good = True
            began = app.clock.wall()
            await app.redrive([flow.id for flow in flows], by="me", why="the key is a good one now")
            for flow in flows:
                await flow.result()
            return app.clock.wall() - began

    assert asyncio.run(story()) == 0


def inner_call(services: redrive.resilience.Dependencies, back_at: float) -> redrive.Action[[int], int]:
    """An action with a guarded call inside, to what is away until then."""

    @redrive.retry(dependency=services.get("payments"))
    async def call() -> None:
        if current_clock().wall() < back_at:
            raise ConnectionError("away")

    @action(name="guard.inside")
    async def inside(order: int) -> int:
        await call()
        return order

    return inside


@pytest.mark.promise("P13")
def test_an_attempt_that_meets_an_open_circuit_inside_does_not_count_and_comes_back_after_the_probe() -> None:
    async def story() -> None:
        async with flow_app() as app:
            began = app.clock.wall()
            inside = inner_call(redrive.resilience.Dependencies(), back_at=began + 20)
            flows = [await app.start(inside(order), retry=redrive.Policy(attempts=3)) for order in range(50)]
            for order, flow in enumerate(flows):
                assert await flow.result() == order
            assert 30 <= app.clock.wall() - began < 40
            log = [line.event for line in await app.log(flows[-1].id)]
            (returned,) = (event for event in log if isinstance(event, AttemptReturned))
            assert "the circuit of 'payments' is open" in returned.reason

    asyncio.run(story())


@pytest.mark.promise("R10")
def test_an_open_circuit_inside_goes_to_the_handlers_where_the_policy_does_not_retry_it() -> None:
    inside = inner_call(redrive.resilience.Dependencies(), back_at=float("inf"))

    @workflow(name="guard.OtherWay")
    class OtherWay(Workflow):
        async def run(self) -> int:
            once = redrive.RetryPolicy(attempts=1, exception_types=["ConnectionError"])
            for _ in range(5):
                with contextlib.suppress(ConnectionError, redrive.CircuitOpenError):
                    await self.run_action(inside(1), retry=once)
            try:
                return await self.run_action(inside(1), retry=redrive.RetryPolicy(exception_types=["ConnectionError"]))
            except redrive.CircuitOpenError:
                return -1

    assert run_flow(OtherWay.call()).result == -1


@pytest.mark.promise("P13")
def test_a_worker_that_loses_its_lease_gives_the_probe_back() -> None:
    called = []

    @action(name="guard.probe")
    async def probe(order: int) -> int:
        called.append(order)
        if len(called) == 1:
            raise ConnectionError("away")
        if len(called) == 2:
            await asyncio.Event().wait()
        return order

    graph = Graph("guard-probe").step(
        "probe",
        probe,
        inputs={"order": "integer"},
        outputs={"paid": "integer"},
        retry=redrive.RetryPolicy(attempts=9, backoff_seconds=0.05),
        dependency="payments",
    )

    async def scenario() -> None:
        async with redrive.open("memory://", grace=0.0, poll=0.01) as app, asyncio.timeout(5):
            app._dependencies.define("payments", circuit=CircuitSettings(failures=1, cooldown=0.01))
            flow = await app.start(graph.call({"order": 7}))
            while len(called) < 2:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)
            assert app._worker is not None
            assert app._worker.lease is not None
            await app.store.release_lease(app._worker.lease)
            await flow.pause()
            await flow.resume()
            assert await flow.result() == {"paid": 7}
            assert not any(isinstance(line.event, ItemDeferred) for line in await app.log(flow.id))

    asyncio.run(scenario())


def test_what_is_put_off_when_it_has_a_place_gives_it_up_and_its_lane_too() -> None:
    back_at = 60.0

    @action(name="guard.call")
    async def call(order: int) -> int:
        if current_clock().monotonic() < back_at:
            raise ConnectionError("away")
        return order

    @action(name="guard.beside")
    async def beside(order: int) -> int:
        return order

    one, several = (
        Graph(name).step(
            "call",
            call,
            inputs={"order": {"type": "integer", "from": "orders"}},
            for_each="order",
            outputs={"paid": "integer"},
            retry=redrive.Policy(attempts=9, deadline=None),
            parallelism=1,
            dependency="payments",
        )
        for name in ("guard-one", "guard-several")
    )

    async def story() -> None:
        async with flow_app(concurrency=1) as app, asyncio.timeout(10):
            with app.clock.frozen():
                # The last two stand in line when the circuit opens, one of them with others behind it in its lane.
                flows = [await app.start(one.call({"orders": [number]})) for number in range(6)]
                flows.append(await app.start(several.call({"orders": [6, 7, 8]})))
                for flow in flows:
                    await app.settled(flow)
                assert len(app.witness.executed) == 5
                deferred = [
                    line for flow in flows for line in await app.log(flow.id) if isinstance(line.event, ItemDeferred)
                ]
                # All but those that were called, whichever flows these belong to.
                assert len(deferred) == 9 - 5
                # And this one begins when it is open.
                flows.append(await app.start(one.call({"orders": [9]})))
                await app.settled(flows[-1])
                assert await (await app.start(beside(1))).result() == 1
            assert {(await app.outcome(flow)).status for flow in flows} == {"completed"}

    asyncio.run(story())
