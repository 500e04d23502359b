"""A dependency that comes back after an outage is not overrun: what waits for it begins in order, as fast as it can."""

import asyncio
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

from redrive import action
from redrive.determinism.clock import current_clock
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.events import AttemptFailed, ItemDeferred
from redrive.flows.graphs.graph import Graph
from redrive.policies.policy import DEFAULT_POLICY
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.events import CircuitChanged, CircuitRecovery
from redrive.telemetry.stream import listen
from redrive.testing import FlowApp, flow_app
from redrive.worker.dependency_guard import Deferred, DependencyGuard
from redrive.worker.dependency_line import DependencyLine

pytestmark = pytest.mark.promise("P13")

DOWN = DEFAULT_CLASSIFIER.failure_of(ConnectionError("away"), 0.0)
RECOVERING = "the circuit of payments is recovering: calls are let through in order, as fast as it can take them"


class Server:
    """Down at first; then it does so many calls in each second, and refuses the rest."""

    def __init__(self, name: str, each_second: float, down: float = 20.0, again: tuple[float, float] = (0, 0)) -> None:
        self.calls: list[tuple[float, int, bool]] = []
        """Seconds since its return, who called, and whether it was done."""
        self._each_second = each_second
        self._seen: dict[int, int] = {}
        self._back_at: float | None = None

        @action(name=f"recovery.{name}")
        async def call(order: int) -> int:
            now = current_clock().monotonic()
            if self._back_at is None:
                self._back_at = now + down
            up = now - self._back_at
            self._seen[int(up)] = self._seen.get(int(up), 0) + 1
            is_done = up >= 0 and not again[0] <= up < again[1] and self._seen[int(up)] <= each_second
            self.calls.append((up, order, is_done))
            if not is_done:
                raise ConnectionError("busy")
            return order

        self.graph = Graph(f"recovery-{name}").step(
            "call", call, inputs={"order": "integer"}, outputs={"paid": "integer"}, dependency="payments"
        )

    @property
    def seconds(self) -> float:
        """From its return to the last call."""
        return self.calls[-1][0]

    @property
    def refused(self) -> float:
        """The share of the calls since its return."""
        since = [is_done for up, _, is_done in self.calls if up >= 0]
        return since.count(False) / len(since)


async def all_done(app: FlowApp, server: Server, flows: int) -> list[list[Any]]:
    """Run the flows; return the events of each."""
    with app.clock.frozen():
        handles = [await app.start(server.graph.call({"order": order})) for order in range(flows)]
    for order, handle in enumerate(handles):
        assert await handle.result() == {"paid": order}
    return [[line.event for line in await app.log(handle.id)] for handle in handles]


def count(events: list[Any], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


@pytest.mark.parametrize("flows", [250, 1000], ids=["half of them in memory", "all in memory"])
def test_a_herd_is_done_about_as_fast_as_the_dependency_can_and_hardly_refused(flows: int) -> None:
    server = Server("herd", 50)

    async def story() -> list[list[Any]]:
        async with flow_app(flows=flows) as app:
            return await all_done(app, server, 500)

    logs = asyncio.run(story())
    # The probe comes ten seconds after its return, and those who leave memory come back a few seconds late.
    assert server.seconds < 10 + 1.5 * 500 / 50 + (0 if flows > 500 else 5)
    assert server.refused < 0.1
    # Once because the circuit is open, once because it recovers, and once again after each refusal.
    assert all(count(log, ItemDeferred) <= 2 + 2 * count(log, AttemptFailed) for log in logs)
    assert sum(count(log, ItemDeferred) for log in logs) < 3 * len(logs)


def test_few_flows_do_not_wait_longer_than_for_the_probe() -> None:
    server = Server("few", 50)

    async def story() -> None:
        async with flow_app() as app:
            await all_done(app, server, 20)

    asyncio.run(story())
    assert server.seconds < 10 + 5
    assert server.refused == 0


def test_a_dependency_that_can_do_everything_gets_it_within_seconds() -> None:
    server = Server("everything", math.inf)

    async def story() -> None:
        async with flow_app() as app:
            await all_done(app, server, 500)

    asyncio.run(story())
    assert server.seconds < 10 + 8
    assert server.refused == 0


def test_a_dependency_that_fails_again_opens_the_circuit_and_nothing_is_lost() -> None:
    server = Server("flapping", 50, again=(13.0, 25.0))
    told: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, CircuitChanged):
            told.append(event.after)
        elif isinstance(event, CircuitRecovery):
            told.append(event.stage)

    async def story() -> None:
        async with flow_app() as app:
            await all_done(app, server, 300)

    stop_listening = listen(note)
    try:
        asyncio.run(story())
    finally:
        stop_listening()
    stages = [what for what in told if what != "slowed"]
    first = ["open", "half_open", "closed", "began", "open", "failed"]
    assert stages[: len(first)] == first
    assert stages[len(first) :] == ["half_open", "closed", "began"]
    # It was noticed soon: what was called while it was down again is little.
    assert len([up for up, _, _ in server.calls if 13 <= up < 25]) < 20


def test_what_waits_begins_in_the_order_in_which_it_came() -> None:
    server = Server("order", math.inf)

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                late = [await app.start(server.graph.call({"order": order})) for order in range(5)]
                for handle in late:
                    await app.settled(handle)
            # They come one after the other while the circuit is about to let a probe through.
            app.clock.advance(26)
            for order in range(5, 60):
                with app.clock.frozen():
                    await app.settled(await app.start(server.graph.call({"order": order})))
            for record in await app.flows():
                await app.handle(record.id).result()

    asyncio.run(story())
    began = [order for up, order, _ in server.calls if up >= 0 and order >= 5]
    assert began == sorted(began)


def test_a_newcomer_does_not_overtake_who_stands_in_line() -> None:
    now, alarms = [0.0], list[Callable[[], None]]()

    def alarm(when: float, ring: Callable[[], None]) -> Callable[[], None]:
        alarms.append(ring)
        return lambda: None

    guard = DependencyGuard(lambda: 0.0, monotonic=lambda: now[0], alarm=alarm, most_in_line=1)

    def ask(item: int) -> bool:
        guard.admit(("flow", item), "bank", retry=False, now=now[0])
        return True

    for item in range(5):
        ask(item)
        guard.failed(("flow", item), DEFAULT_POLICY, DOWN, 0.0)
    now[0] = 31.0
    ask(6)
    guard.succeeded(("flow", 6), 31.0)
    with pytest.raises(Deferred, match="recovering") as held_back:
        all(map(ask, itertools.count(7)))
    line = held_back.value.line
    assert line is not None
    assert line.join(("flow", 100), lambda: ask(100))
    assert not line.join(("flow", 101), lambda: ask(101)), "the line is full"
    # By now there is room for another call.
    now[0] = 31.3
    with pytest.raises(Deferred, match="recovering"):
        ask(102)
    alarms[-1]()
    assert ("flow", 100) in guard.permits
    assert not len(line)


def test_an_attempt_whose_turn_came_while_no_slot_was_free_is_still_the_next() -> None:
    """Otherwise it goes to the end of the line each time, and never begins beside work that takes all slots."""
    alarms: list[Callable[[], None]] = []

    def alarm(when: float, ring: Callable[[], None]) -> Callable[[], None]:
        alarms.append(ring)
        return lambda: None

    def begins(name: str) -> Callable[[], bool]:
        def start() -> bool:
            order.append(name)
            return True

        return start

    order: list[str] = []
    line = DependencyLine(Dependency("payments", None, None), 10, lambda: 0.0, alarm)
    line.join(("first", 1), lambda: False)
    line.join(("second", 1), begins("second"))
    alarms[-1]()
    assert line.lets_pass(("first", 1))
    assert not line.lets_pass(("third", 1))
    # The circuit refuses it once it has its slot.
    line.join(("first", 1), begins("first"))
    alarms[-1]()
    assert order == ["first", "second"]


def test_explain_says_that_the_dependency_recovers() -> None:
    server = Server("explained", 50)

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handles = [await app.start(server.graph.call({"order": order})) for order in range(200)]
                for handle in handles:
                    await app.settled(handle)
            while not any(is_done for _, _, is_done in server.calls):
                await app.clock.asleep(0.5)
            with app.clock.frozen():
                told = [await app.explain(handle.id) for handle in handles]
            waits = [wait for one in told for wait in one.waits_for if wait.why]
            assert {wait.why for wait in waits} <= {RECOVERING, "the circuit of payments is open"}
            held_back = next(one for one in told if one.waits_for and one.waits_for[0].why == RECOVERING)
            assert RECOVERING in held_back.headline
            assert RECOVERING in str(held_back)
            for handle in handles:
                await handle.result()

    asyncio.run(story())


def test_a_flow_that_is_cancelled_or_paused_in_line_does_not_hold_up_the_others() -> None:
    server = Server("cancelled", 50)

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handles = [await app.start(server.graph.call({"order": order})) for order in range(300)]
                for handle in handles:
                    await app.settled(handle)
            while not any(is_done for _, _, is_done in server.calls):
                await app.clock.asleep(0.5)
            with app.clock.frozen():
                done = {order for _, order, is_done in server.calls if is_done}
                cancelled, paused, *_ = (order for order in range(300) if order not in done)
                await handles[cancelled].cancel(force=True)
                await handles[paused].pause()
                settled = {await app.settled(handles[one]) for one in (cancelled, paused)}
                assert settled == {"cancelled", "paused"}
            for order, handle in enumerate(handles):
                if order not in (cancelled, paused):
                    assert await handle.result() == {"paid": order}
            assert not {order for _, order, is_done in server.calls if is_done} & {cancelled, paused}
            await handles[paused].resume()
            assert await handles[paused].result() == {"paid": paused}

    asyncio.run(story())


def test_a_worker_that_dies_in_the_recovery_loses_nothing() -> None:
    server = Server("killed", 50)

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handles = [await app.start(server.graph.call({"order": order})) for order in range(100)]
                for handle in handles:
                    await app.settled(handle)
            while sum(is_done for _, _, is_done in server.calls) < 20:
                await app.clock.asleep(0.2)
            await app.kill()
            app.revive()
            for order, handle in enumerate(handles):
                assert await handle.result() == {"paid": order}

    asyncio.run(story())
