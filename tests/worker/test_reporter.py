"""A worker's report of itself and of what waits, the activity that it counts, and the orders that it obeys."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redrive import RetryAfter, RetryPolicy, Snooze, Workflow, action, workflow
from redrive.errors import StoreUnavailableError
from redrive.resilience.circuit import CircuitSettings
from redrive.stores.activity import OTHER, ActivityQuery
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import DeadQuery, FlowQuery, RetryQuery, RetryRow
from redrive.stores.worker_reports import DependencyOrder, ReportBody, read_report
from redrive.telemetry.events import CircuitChanged
from redrive.telemetry.stream import listen
from redrive.testing import FlowApp, flow_app
from redrive.worker.activity import MOST_NAMES, ActivityCounts
from redrive.worker.reporter import Reporter

OFTEN = RetryPolicy(attempts=5, exception_types=(ConnectionError, RetryAfter), backoff_seconds=100, jitter=0)
errors: list[BaseException] = []


@action(name="reporter.call", dependency="bank", retry=OFTEN)
async def call() -> str:
    """Raises the errors that are listed, the last one for ever."""
    if errors:
        raise errors.pop(0) if len(errors) > 1 else errors[0]
    return "paid"


@action(name="reporter.free", retry=OFTEN)
async def free() -> str:
    return "done"


@workflow(name="reporter.Order")
class Order(Workflow):
    async def run(self) -> str:
        await self.run_action(free())
        return await self.run_action(call())


@pytest.fixture(autouse=True)
def _no_errors() -> None:
    errors.clear()


@asynccontextmanager
async def working_app(*args: Any, **settings: Any) -> AsyncIterator[Any]:
    """An app whose worker has begun."""
    async with flow_app(*args, **settings) as app:
        while app._worker is None:  # noqa: ASYNC110 - it comes within a few turns of the loop
            await asyncio.sleep(0)
        await app._worker.joined.wait()
        yield app


def reporter_of(app: Any) -> Reporter:
    reporter: Reporter = app._worker.reporter
    return reporter


async def body_of(app: Any) -> ReportBody:
    await reporter_of(app).look()
    (report,) = await app.store.list_reports()
    body = read_report(report)
    assert body is not None
    return body


async def counted(app: Any, *names: Any) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for row in await app.store.read_activity(ActivityQuery(since=0.0, by=names)):
        counts[(*(getattr(row, name) for name in names), row.outcome)] += row.count
    return dict(counts)


async def first_row(app: FlowApp, good: Callable[[RetryRow], bool]) -> RetryRow:
    for _ in range(1000):
        rows: list[RetryRow] = await app.retries(RetryQuery())
        for row in rows:
            if good(row):
                return row
        await asyncio.sleep(0)
    raise AssertionError(await app.retries(RetryQuery()))


@pytest.mark.promise("V1")
@pytest.mark.parametrize(
    ("raised", "waits_for"),
    [(ConnectionError("away"), "backoff"), (RetryAfter(50), "retry_after"), (Snooze(50, "closed"), "snooze")],
)
def test_a_retry_says_what_it_waits_for(raised: BaseException, waits_for: str) -> None:
    async def story() -> None:
        async with working_app() as app:
            with app.clock.frozen():
                errors.append(raised)
                handle = await app.start(call())
                row = await first_row(app, lambda row: row.status == "waiting")
                assert (row.flow_id, row.definition, row.dependency) == (handle.id, "action:reporter.call", "bank")
                assert row.waits_for == waits_for
                name = type(raised).__name__
                assert row.error_type.rpartition(".")[2] == ("" if waits_for == "snooze" else name)
                assert row.since == app.clock.wall()
                found = await app.flows(FlowQuery(waits_for=row.waits_for, dependency="bank"))
                assert [flow.id for flow in found] == [handle.id]

    asyncio.run(story())


@pytest.mark.promise("V1")
def test_work_that_its_dependency_holds_back_says_so() -> None:
    async def story() -> None:
        async with working_app() as app:
            app._worker.guard.dependencies.define("bank", circuit=CircuitSettings(failures=1, cooldown=1000))
            with app.clock.frozen():
                errors.append(ConnectionError("away"))
                await app.start(call())
                await first_row(app, lambda row: row.waits_for == "backoff")
                await app.start(call())
                row = await first_row(app, lambda row: row.waits_for == "circuit")
                assert (row.reason, row.error_type, row.attempt_number) == ("the circuit of bank is open", "", 0)
                body = await body_of(app)
                (state,) = body.dependencies
                assert (state.name, state.phase, state.failures) == ("bank", "open", 0)
                assert state.since == pytest.approx(app.clock.wall())
                assert state.probe_at == pytest.approx(app.clock.wall() + 1000)
                assert await counted(app, "dependency") == {
                    ("", "flow_started"): 2,
                    ("bank", "retried"): 1,
                    ("bank", "deferred"): 1,
                }

    asyncio.run(story())


def test_attempts_and_flows_are_counted_by_their_names() -> None:
    async def story() -> None:
        async with working_app() as app:
            errors.extend([ConnectionError("away"), ConnectionError("away"), PermissionError("no")])
            await app.outcome(await app.start(Order.call()))
            errors.clear()
            await app.outcome(await app.start(call()))
            await reporter_of(app).look()
            order, job = "workflow:reporter.Order", "action:reporter.call"
            assert await counted(app, "definition", "step") == {
                (order, "", "flow_started"): 1,
                (order, "reporter.free", "succeeded"): 1,
                (order, "reporter.call", "retried"): 2,
                (order, "reporter.call", "gave_up"): 1,
                (order, "", "flow_failed"): 1,
                (job, "", "flow_started"): 1,
                (job, "reporter.call", "succeeded"): 1,
                (job, "", "flow_completed"): 1,
            }
            rows = await app.store.read_activity(ActivityQuery(since=0.0, by=("dependency",)))
            assert {row.dependency for row in rows if row.outcome == "retried"} == {"bank"}
            assert all(row.at % 60 == 0 for row in rows)
            (letter,) = await app.dead_letters(DeadQuery())
            assert letter.dependency == "bank"

    asyncio.run(story())


def test_what_was_counted_is_sent_when_the_worker_stops() -> None:
    store = MemoryStore()

    async def story() -> None:
        async with working_app(store) as app:
            await app.outcome(await app.start(free()))
        assert (await counted_in(store))["succeeded"] == 1
        assert await store.list_reports() == []

    asyncio.run(story())


async def counted_in(store: MemoryStore) -> dict[str, int]:
    return {row.outcome: row.count for row in await store.read_activity(ActivityQuery(since=0.0))}


def test_what_could_not_be_sent_is_sent_later() -> None:
    class GoesAway(MemoryStore):
        is_away = False

        async def report(self, *args: Any) -> None:
            if self.is_away:
                raise StoreUnavailableError("away")
            await super().report(*args)

    store = GoesAway()

    async def story() -> None:
        async with working_app(store) as app:
            await app.outcome(await app.start(free()))
            store.is_away = True
            with pytest.raises(StoreUnavailableError):
                await reporter_of(app).look()
            store.is_away = False
            await app.outcome(await app.start(free()))
            await reporter_of(app).look()
            assert (await counted_in(store))["succeeded"] == 2

    asyncio.run(story())


def test_a_report_is_written_when_something_has_changed() -> None:
    async def story() -> None:
        async with working_app() as app:
            with app.clock.frozen():
                body = await body_of(app)
                assert body.slots["loop"].busy == 0
                assert body.running == []
                (first,) = await app.store.list_reports()
                app.clock.advance(5)
                await reporter_of(app).look()
                assert await app.store.list_reports() == [first]
                app.clock.advance(5)
                await reporter_of(app).look()
                (second,) = await app.store.list_reports()
                assert second.at == first.at + 10

    asyncio.run(story())


@action(name="reporter.long")
async def long(gate: str) -> str:
    GATES[gate].set()
    await GATES[gate + "!"].wait()
    return gate


GATES: dict[str, asyncio.Event] = {}


def test_a_report_names_what_runs() -> None:
    async def story() -> None:
        GATES.update({"g": asyncio.Event(), "g!": asyncio.Event()})
        async with working_app(concurrency=1) as app:
            handle = await app.start(long("g"))
            await GATES["g"].wait()
            body = await body_of(app)
            (running,) = body.running
            assert (running.flow_id, running.step, running.attempt) == (handle.id, "reporter.long", 1)
            assert (body.slots["loop"].size, body.slots["loop"].busy) == (1, 1)
            GATES["g!"].set()
            await app.outcome(handle)

    asyncio.run(story())


def order(what: Any, at: float, why: str = "maintenance") -> DependencyOrder:
    return DependencyOrder(name="bank", order=what, by="anna", why=why, at=at)


def test_a_circuit_is_held_open_until_somebody_closes_it() -> None:
    changes: list[CircuitChanged] = []

    async def story() -> None:
        async with working_app() as app:
            stop = listen(lambda event: changes.append(event) if isinstance(event, CircuitChanged) else None)
            with app.clock.frozen():
                await app.store.set_dependency_order(order("open", 1.0))
                await reporter_of(app).look()
                handle = await app.start(call())
                row = await first_row(app, lambda row: row.waits_for == "circuit")
                assert row.reason == "the circuit of bank was opened by hand by anna: maintenance"
                app.clock.advance(10_000)
                await reporter_of(app).look()
                (state,) = (await body_of(app)).dependencies
                assert (state.phase, state.probe_at) == ("open", None)
                assert state.by_hand == "opened by hand by anna: maintenance"
                assert (await app.find(handle.id)).status not in ("completed", "failed")
                await app.store.set_dependency_order(order("close", 2.0, "it is over"))
                await reporter_of(app).look()
                closed_at = app.clock.monotonic()
            assert (await app.outcome(handle)).result == "paid"
            # It was in line, and need not wait until it would have asked again.
            assert app.clock.monotonic() - closed_at < 5
            stop()

    asyncio.run(story())
    assert [(one.before, one.after, one.by_hand) for one in changes] == [
        ("closed", "open", "opened by hand by anna: maintenance"),
        ("open", "closed", "closed by hand by anna: it is over"),
    ]


def test_an_order_to_close_is_obeyed_once_and_not_by_later_workers() -> None:
    async def story() -> None:
        async with working_app() as app:
            await app.store.set_dependency_order(order("close", 1.0))
            await reporter_of(app).look()
            circuit = app._worker.guard.dependencies.get("bank").circuit
            circuit.hold_open("a test", 0.0)
            circuit.state = type(circuit.state)("open", 0, app.clock.monotonic(), 0.0, 7)
            # From before this worker looked for the first time.
            await reporter_of(app).look()
            assert circuit.state.phase == "open"
            await app.store.set_dependency_order(order("close", 2.0))
            await reporter_of(app).look()
            assert circuit.state.phase == "closed"
            assert circuit.is_recovering
            circuit.state = type(circuit.state)("open", 0, app.clock.monotonic(), 0.0, 9)
            await reporter_of(app).look()
            assert circuit.state.phase == "open"

    asyncio.run(story())


def test_too_many_names_are_counted_together() -> None:
    counts = ActivityCounts()
    for number in range(MOST_NAMES + 50):
        counts.add(0.0, f"d{number}", "succeeded", "step", "bank", 0.5)
    rows = counts.take()
    assert len(rows) == MOST_NAMES + 1
    (other,) = [row for row in rows if row.definition == OTHER]
    assert (other.step, other.dependency, other.count, other.seconds) == (OTHER, OTHER, 50, 25.0)
    assert counts.take() == []


def test_passwords_in_the_name_of_a_dependency_are_not_reported() -> None:
    counts = ActivityCounts()
    counts.add(0.0, "d", "succeeded", "step", "https://me:secret@bank.example")
    (row,) = counts.take()
    assert "secret" not in row.dependency
