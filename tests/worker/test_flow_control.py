"""Starting, finding, stopping and limiting flows, on every store."""

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from tests.postgres_server import shared_server
from tests.worker.quick_app import eventually, opened

import redrive
from redrive import Graph, RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.client.app import App
from redrive.client.flow_inputs import FlowInput
from redrive.errors import FlowFinishedError
from redrive.flows.events import AttemptFailed, AttemptReturned, CancelRequested, Paused, Redriven, Resumed
from redrive.flows.messages import Cancel, read_message
from redrive.flows.scripts.script import Script
from redrive.stores.records import DeadQuery, FlowQuery
from redrive.stores.sqlite.connection import PAGE
from redrive.stores.sqlite.writes import MAX_PAGES_PRUNED
from redrive.testing import flow_app
from redrive.worker.maintenance import pruner
from redrive.worker.settings import WorkerSettings

Scenario = Callable[[App], Awaitable[None]]

gate = asyncio.Event()
seen: list[object] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    global gate
    gate = asyncio.Event()
    seen.clear()


@action
async def double(n: int) -> int:
    seen.append(n)
    return 2 * n


@action
async def wait_at_gate(n: int) -> int:
    seen.append(n)
    try:
        await gate.wait()
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise
    return n


@action
async def undo(n: int) -> None:
    seen.append(f"undo {n}")


@action
async def never_works(message: str) -> None:
    seen.append(message)
    raise ConnectionError(message)


@action
async def fail_until_open(n: int) -> int:
    seen.append(n)
    if not gate.is_set():
        raise redrive.Permanent("not yet")
    return n


@workflow
class Doubling(Workflow):
    async def run(self, n: int) -> int:
        return await double(n)


@workflow
class AtGate(Workflow):
    async def run(self, n: int) -> int:
        try:
            return await wait_at_gate(n)
        finally:
            await undo(n)


@workflow
class Patient(Workflow):
    async def run(self) -> None:
        await self.run_action(never_works("never"), retry=RetryPolicy(attempts=None, backoff_seconds=3600))


@workflow
class Sleeper(Workflow):
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"


@workflow
class TwoSteps(Workflow):
    async def run(self, n: int) -> int:
        first = await double(n)
        return await fail_until_open(first)


def test_the_same_key_and_input_is_the_same_flow_and_another_input_is_refused(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            first = await app.start(Doubling.call(4), key="order-17")
            again = await app.start(Doubling.call(n=4), key="order-17")
            assert first.id == again.id
            assert await again.result(timeout=10) == 8
            with pytest.raises(redrive.KeyTakenError, match=r"order-17.*another input"):
                await app.start(Doubling.call(5), key="order-17")
            other = await app.start(double(4), key="order-17")
            assert other.id != first.id
            assert await other.result(timeout=10) == 8
            assert seen == [4, 4]
            same = await asyncio.gather(*(app.start(Doubling.call(9), key="many") for _ in range(20)))
            assert len({handle.id for handle in same}) == 1

    asyncio.run(scenario())


class Shade(enum.Enum):
    """Its sets keep the order in which they were filled: other hashes in another process give another order too."""

    RED, GREEN, BLUE = "red", "green", "blue"

    def __hash__(self) -> int:
        return 1


@action
async def mixed(shades: set[Shade], parts: Any = 1) -> int:
    return len(shades)


@workflow
class Mixing(Workflow):
    async def run(self, shades: set[Shade], parts: Any = 1) -> int:
        return len(shades)


@pytest.mark.parametrize(
    "start",
    [
        lambda app, *args: app.start(Mixing.call(*args), key="blend"),
        lambda app, *args: app.start(mixed(*args), key="blend"),
    ],
    ids=["flow", "job"],
)
def test_a_set_in_the_order_of_another_process_is_the_same_input(address: str, start: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            first = await start(app, set(Shade))
            assert (await start(app, {Shade.BLUE, Shade.GREEN, Shade.RED})).id == first.id
            for other in ({Shade.RED, Shade.BLUE},), (set(Shade), 2), (set(Shade), 1.0):
                with pytest.raises(redrive.KeyTakenError):
                    await start(app, *other)

    asyncio.run(scenario())


def test_a_job_with_the_same_key_and_another_policy_is_another_input(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            await app.start(mixed(set(Shade)), key="blend", retry=RetryPolicy(attempts=2))
            with pytest.raises(redrive.KeyTakenError):
                await app.start(mixed({Shade.BLUE, Shade.GREEN, Shade.RED}), key="blend", retry=RetryPolicy(attempts=3))

    asyncio.run(scenario())


def test_a_job_with_the_same_key_is_the_same_though_its_action_has_another_policy_now(address: str) -> None:
    def version(attempts: int) -> Callable[[int], Any]:
        @action(retry=RetryPolicy(attempts=attempts))
        async def rebuilt(n: int) -> int:
            return n

        return rebuilt

    async def scenario() -> None:
        async with opened(address) as app:
            first = await app.start(version(2)(1), key="again")
            assert (await app.start(version(5)(1), key="again")).id == first.id
            with pytest.raises(redrive.KeyTakenError):
                await app.start(version(5)(2), key="again")

    asyncio.run(scenario())


def greeting(more: str = "") -> Script:
    text = "fn main(who, times=1):\n    return [who] * times\nfn other(who):\n    return who\n"
    return Script("greeting", text + more)


def greeting_graph(more: str = "") -> Graph:
    retry = RetryPolicy(attempts=2 + len(more))
    return Graph("greeting").step("double", double, inputs={"n": "integer"}, outputs=["twice"], retry=retry)


async def keys_of_goals(app: redrive.App, two: Graph) -> None:
    """Whoever names no goals means the graph's own, whichever these are by now."""
    own = (await app.start(greeting_graph().call({"n": 7}), key="own")).id
    assert (await app.start(two.call({"n": 7}), key="own")).id == own
    named = (await app.start(two.call({"n": 7}, goals=["again"]), key="named")).id
    assert (await app.start(two.call({"n": 7}, goals=["again"]), key="named")).id == named
    with pytest.raises(redrive.KeyTakenError):
        await app.start(two.call({"n": 7}, goals=["double"]), key="named")
    # One that was started before it was kept what had been named: its goals are all that is known.
    text = (await app.find(named)).input.replace(',"asked":["again"]', "")
    assert '"asked"' not in text
    old = (await app._start(FlowInput("graph:greeting", text), key="old")).id
    assert (await app.start(two.call({"n": 7}, goals=["again"]), key="old")).id == old
    with pytest.raises(redrive.KeyTakenError):
        await app.start(two.call({"n": 7}, goals=["double"]), key="old")


def test_an_input_that_cannot_be_compared_is_another_one_and_everybody_is_answered(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            readable = '{"function": "main", "inputs": {}}'
            first = await app._start(FlowInput("script:any", readable), key="k")
            asked = [app._start(FlowInput("script:any", text), key="k") for text in ('{"function": 7}', readable)]
            refused, same = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)
            assert isinstance(refused, redrive.KeyTakenError)
            assert isinstance(same, redrive.Handle)
            assert same.id == first.id

    asyncio.run(scenario())


def test_a_key_stays_good_when_the_text_of_a_script_or_the_steps_of_a_graph_change(address: str) -> None:
    async def scenario() -> None:
        async with opened(address, worker=False) as app:

            async def say(*, function: str | None = None, more: str = "", connection: Any = None, **inputs: Any) -> str:
                script = greeting(more)
                handle = await app.start(script.call(inputs, function=function), key="k", connection=connection)
                return handle.id

            first = await say(who="ann")
            assert await say(who="ann", more="# a note\n") == first
            others: list[dict[str, Any]] = [{"who": "bob"}, {"who": "ann", "times": 1}]
            for other in [*others, {"who": "ann", "function": "other"}]:
                with pytest.raises(redrive.KeyTakenError):
                    await say(**other)
            numbered = (await app.start(greeting().call({"who": 1}), key="n")).id
            for like in (1.0, True):
                with pytest.raises(redrive.KeyTakenError):
                    await app.start(greeting("#").call({"who": like}), key="n")
            assert (await app.start(greeting("#").call({"who": 1}), key="n")).id == numbered
            of_graph = (await app.start(greeting_graph().call({"n": 4}), key="k")).id
            assert (await app.start(greeting_graph("better").call({"n": 4}), key="k")).id == of_graph
            with pytest.raises(redrive.KeyTakenError):
                await app.start(greeting_graph("better").call({"n": 5}), key="k")
            two = greeting_graph().step("again", double, inputs={"n": {"from": "twice"}})
            with pytest.raises(redrive.KeyTakenError):
                await app.start(two.call({"n": 4}, goals=["again"]), key="k")
            await keys_of_goals(app, two)
            if address.startswith("postgres"):
                connection = await asyncpg.connect(address)
                async with connection.transaction():
                    assert await say(who="ann", more="# in a transaction\n", connection=connection) == first
                    with pytest.raises(redrive.KeyTakenError):
                        await say(who="bob", connection=connection)
                await connection.close()

    asyncio.run(scenario())


def test_a_result_can_be_waited_for_with_a_timeout_and_from_another_handle(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(AtGate.call(3))
            await eventually(lambda: _status_is(handle, "running"))
            with pytest.raises(TimeoutError, match=r"still running after 0\.05 s"):
                await handle.result(timeout=0.05)
            gate.set()
            assert await app.handle(handle.id).result(timeout=10) == 3
            with pytest.raises(redrive.FlowNotFoundError, match="no flow nothing"):
                await app.handle("nothing").result()

    asyncio.run(scenario())


@pytest.mark.promise("T8")
def test_cancelling_wakes_a_backoff_at_once_and_nothing_more_runs(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(Patient.call())
            await eventually(app.retries)
            await handle.cancel(by="ops", why="pointless")
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)
            assert seen == ["never"]
            assert await app.retries() == []
            told = [line.event for line in await app.log(handle.id) if isinstance(line.event, CancelRequested)]
            assert [(event.by, event.why) for event in told] == [("ops", "pointless")]
            with pytest.raises(redrive.errors.FlowFinishedError, match="is cancelled"):
                await handle.cancel()

    asyncio.run(scenario())


def test_cancelling_reaches_a_running_coroutine_and_the_flow_may_clean_up(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(AtGate.call(5))
            await eventually(lambda: _true(seen))
            await handle.cancel()
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)
            assert seen == [5, "cancelled", "undo 5"]

    asyncio.run(scenario())


def test_cancelling_by_force_stops_what_runs_and_runs_nothing_more(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(AtGate.call(5))
            await eventually(lambda: _true(seen))
            await handle.cancel(by="ops", why="now", force=True)
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)
            await eventually(lambda: _true(len(seen) == 2))
            assert seen == [5, "cancelled"]
            told = [line.event for line in await app.log(handle.id) if isinstance(line.event, CancelRequested)]
            assert told == [CancelRequested(by="ops", why="now", force=True)]
            assert (await app.explain(handle.id)).headline == "cancelled at once by ops (now)"

    asyncio.run(scenario())


def test_cancelling_by_force_leaves_nothing_of_a_flow_that_is_in_no_workers_memory(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(Patient.call())
            await eventually(app.retries)
            await eventually(lambda: _status_is(handle, "waiting"))
            await handle.cancel(by="ops", why="now", force=True)
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)
            assert await app.retries() == []

    asyncio.run(scenario())


def test_a_flow_that_no_worker_knows_is_ended_by_force_without_its_code(address: str) -> None:
    async def scenario() -> None:
        async with opened(address, worker=False) as app:
            handle = await app.start(Patient.call())
            await handle.cancel(by="ops", why="its code is gone", force=True)
            assert await handle.status() == "cancelled"
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)
            assert (await app.explain(handle.id)).headline == "cancelled at once by ops (its code is gone)"
            with pytest.raises(FlowFinishedError):
                await handle.cancel(force=True)
            assert await app.store.list_workers() == []

    asyncio.run(scenario())


def test_what_is_ended_without_its_code_leaves_no_retries_and_keeps_its_log(address: str) -> None:
    if address == "memory://":
        pytest.skip("a store in memory ends with its worker")

    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(Patient.call())
            await eventually(app.retries)
            await eventually(lambda: _status_is(handle, "waiting"))
            before = await app.log(handle.id)
        async with opened(address, worker=False) as app:
            await app.handle(handle.id).cancel(by="ops", why="its code is gone", force=True)
            assert await app.retries() == []
            assert (await app.log(handle.id))[: len(before)] == before

    asyncio.run(scenario())


def test_a_flow_in_a_paused_queue_is_ended_by_force_at_once(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            await app.pause_queue("default", by="ops", why="x")
            handle = await app.start(Patient.call())
            await handle.cancel(by="ops", why="not needed", force=True)
            assert await handle.status() == "cancelled"

    asyncio.run(scenario())


STUBBORN = """
fn main():
    while True:
        try:
            sleep 1h
        finally:
            continue
"""


def test_a_flow_that_will_not_be_cancelled_is_explained_and_ends_by_force(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(Script("stubborn", STUBBORN).call())
            await eventually(lambda: _status_is(handle, "waiting"))
            await handle.cancel(by="ops", why="pointless")
            await eventually(lambda: _logged(app, handle.id, CancelRequested))
            await eventually(lambda: _status_is(handle, "waiting"))
            told = await app.explain(handle.id)
            assert told.headline.endswith(
                "; cancellation was requested by ops (pointless), and its code has not stopped yet"
            )
            (by_force,) = [one for one in told.next_steps if "--force" in one.command]
            assert by_force.text == "to end it at once, without running its code and without compensation"
            assert by_force.command == f"redrive flows cancel {handle.id} --force --why WHY"
            await handle.cancel(by="ops", why="enough", force=True)
            with pytest.raises(redrive.FlowCancelledError):
                await handle.result(timeout=10)

    asyncio.run(scenario())


def test_a_cancel_that_was_left_by_an_older_version_is_read() -> None:
    assert read_message('{"type":"cancel","by":"ops"}') == Cancel(by="ops")


async def _true(value: object) -> bool:
    return bool(value)


def test_a_paused_flow_begins_nothing_until_it_is_resumed(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(AtGate.call(1))
            await eventually(lambda: _true(seen))
            await handle.pause(by="ops", why="look")
            await eventually(lambda: _logged(app, handle.id, Paused))
            gate.set()
            await eventually(lambda: _status_is(handle, "paused"))
            assert seen == [1]
            await handle.resume(by="ops")
            assert await handle.result(timeout=10) == 1
            kinds = [type(line.event) for line in await app.log(handle.id)]
            assert Paused in kinds
            assert Resumed in kinds

    asyncio.run(scenario())


async def _logged(app: App, flow_id: str, kind: type) -> bool:
    return any(isinstance(line.event, kind) for line in await app.log(flow_id))


async def _status_is(handle: redrive.Handle[object], status: str) -> bool:
    return await handle.status() == status


def test_a_delayed_start_waits_and_can_be_cancelled(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            soon = await app.start(Doubling.call(1), delay=0.3)
            later = await app.start(Doubling.call(2), delay=datetime.now(UTC) + timedelta(days=2))
            assert await later.status() == "waiting"
            assert await soon.result(timeout=10) == 2
            await later.cancel()
            with pytest.raises(redrive.FlowCancelledError):
                await later.result(timeout=10)
            assert seen == [1]
            with pytest.raises(ValueError, match="time zone"):
                await app.start(Doubling.call(2), delay=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake

    asyncio.run(scenario())


def test_higher_priorities_go_first(address: str) -> None:
    async def scenario() -> None:
        async with redrive.open(address, worker=False) as app:
            for n in (1, 2, 3):
                await app.start(double(n), priority=n)
            app.settings = WorkerSettings(flows=1, poll=0.1)
            working = asyncio.get_running_loop().create_task(app.work())
            await eventually(lambda: _true(len(seen) == 3))
            app.stop()
            await working
            assert seen == [3, 2, 1]

    asyncio.run(scenario())


def test_a_queue_with_a_limit_has_no_more_flows_under_way(address: str) -> None:
    running = 0
    most = 0

    @action
    async def counted(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return n

    async def scenario() -> None:
        async with opened(address) as app:
            await app.limit_queue("narrow", 2)
            handles = [await app.start(counted(n), queue="narrow") for n in range(10)]
            assert [await handle.result(timeout=20) for handle in handles] == list(range(10))
            assert await handles[0].result(timeout=10**400) == 0
            assert most == 2
            with pytest.raises(ValueError, match="limit: 0 is not allowed"):
                await app.limit_queue("narrow", 0)
            with pytest.raises(ValueError, match=r"limit: 1000.* is not allowed"):
                await app.limit_queue("narrow", 10**400)

    asyncio.run(scenario())


def test_a_worker_takes_only_the_queues_it_was_told(address: str) -> None:
    async def scenario() -> None:
        async with opened(address, queues=("mine",)) as app:
            other = await app.start(double(1), queue="other")
            mine = await app.start(double(2), queue="mine")
            assert await mine.result(timeout=10) == 4
            assert await other.status() == "ready"

    asyncio.run(scenario())


@pytest.mark.promise("P17")
def test_a_dead_letter_is_redriven_at_the_step_that_failed_and_its_history_stays(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(TwoSteps.call(21))
            with pytest.raises(redrive.Permanent, match="not yet"):
                await handle.result(timeout=10)
            (letter,) = await app.dead_letters()
            assert (letter.flow_id, letter.step, letter.kind, letter.attempts) == (
                handle.id,
                "fail_until_open",
                "permanent",
                1,
            )
            gate.set()
            assert await app.redrive(handle.id, by="ops", why="opened the gate") == [handle.id]
            assert await handle.result(timeout=10) == 42
            assert seen == [21, 42, 42], "the first step did not run again"
            log = [line.event for line in await app.log(handle.id)]
            redriven = next(event for event in log if isinstance(event, Redriven))
            assert (redriven.by, redriven.why) == ("ops", "opened the gate")
            assert [event.attempt for event in log if isinstance(event, AttemptFailed)] == [1]
            assert await app.dead_letters() == []
            (settled,) = await app.dead_letters(DeadQuery(state="redriven"))
            assert (settled.by, settled.why) == ("ops", "opened the gate")

    asyncio.run(scenario())


@pytest.mark.promise("P17")
def test_a_discarded_letter_stays_failed_with_who_and_why(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(fail_until_open(1))
            with pytest.raises(redrive.Permanent):
                await handle.result(timeout=10)
            assert await app.discard([handle.id], by="ops", why="obsolete") == [handle.id]
            assert await app.redrive([handle.id], by="ops", why="late") == []
            (letter,) = await app.dead_letters(DeadQuery(state="discarded"))
            assert (letter.by, letter.why) == ("ops", "obsolete")
            assert await handle.status() == "failed"

    asyncio.run(scenario())


@pytest.mark.promise("P17")
def test_a_step_of_a_discarded_flow_is_not_settled_by_hand(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(fail_until_open(1))
            with pytest.raises(redrive.Permanent):
                await handle.result(timeout=10)
            (letter,) = await app.dead_letters()
            assert letter.step is not None
            await app.discard(handle.id, by="ops", why="obsolete")
            for settled in (
                app.reset_step(handle.id, letter.step, by="ann", why="late"),
                app.complete_step(handle.id, letter.step, 2, by="ann", why="late"),
                app.resolve_step(handle.id, letter.step, by="ann", why="late"),
            ):
                with pytest.raises(redrive.errors.InvalidStateError, match=r"was discarded by ops \(obsolete\)"):
                    await settled
            assert await handle.status() == "failed"

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_finished_flows_are_removed_after_a_while_and_dead_letters_are_not(address: str) -> None:
    async def scenario() -> None:
        async with opened(address) as app:
            done, dead = await app.start(double(1)), await app.start(fail_until_open(1))
            assert await done.result(timeout=10) == 2
            with pytest.raises(redrive.Permanent):
                await dead.result(timeout=10)
        async with opened(address, keep_finished=0.0) as app:
            await eventually(lambda: _gone(app, done.id))
            assert await app.find(dead.id)

    asyncio.run(scenario())


def test_finished_flows_are_removed_from_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruner, "PRUNE_EVERY", 0.01)

    async def scenario() -> None:
        async with flow_app(keep_finished="1h") as app:
            done, dead = await app.start(double(1)), await app.start(fail_until_open(1))
            assert ((await app.outcome(done)).status, (await app.outcome(dead)).status) == ("completed", "failed")
            assert not await _gone(app, done.id)
            app.clock.advance(3601)
            await eventually(lambda: _gone(app, done.id))
            assert await app.find(dead.id)

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_all_finished_flows_are_removed_though_one_fills_a_transaction(address: str) -> None:
    @action
    async def long_text() -> str:
        return "x" * MAX_PAGES_PRUNED * PAGE

    async def scenario() -> None:
        async with opened(address) as app:
            handles = [await app.start(long_text()) for _ in range(2)]
            for handle in handles:
                await handle.result(timeout=10)
        async with opened(address, keep_finished=0.0) as app:
            await eventually(lambda: _gone(app, handles[0].id))
            await eventually(lambda: _gone(app, handles[1].id))

    asyncio.run(scenario())


async def _gone(app: App, flow_id: str) -> bool:
    return flow_id not in {flow.id for flow in await app.flows(FlowQuery())}


def test_a_snoozed_attempt_does_not_count(address: str) -> None:
    @action
    async def not_yet() -> int:
        seen.append(current_attempt().number)
        if len(seen) < 3:
            raise redrive.Snooze("100ms", "still closed")
        return current_attempt().number

    async def scenario() -> None:
        async with opened(address) as app:
            handle = await app.start(not_yet(), retry=RetryPolicy(attempts=1))
            assert await handle.result(timeout=10) == 1
            assert seen == [1, 1, 1]
            returned = [line.event for line in await app.log(handle.id) if isinstance(line.event, AttemptReturned)]
            assert [event.reason for event in returned] == ["still closed", "still closed"]

    asyncio.run(scenario())


def test_flows_that_sleep_leave_memory_and_come_back(address: str) -> None:
    async def scenario() -> None:
        async with opened(address, flows=1) as app:
            handles = [await app.start(Sleeper.call(0.3)) for _ in range(5)]
            assert [await handle.result(timeout=20) for handle in handles] == ["awake"] * 5

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (lambda app: app.start(Doubling.call()), "workflow Doubling: missing a required argument: 'n'"),  # type: ignore[call-arg]
        (lambda app: app.start(Doubling.call("x")), "n"),  # type: ignore[arg-type]
        (lambda app: app.start(Doubling.call(1), priority="high"), "priority"),
        (lambda app: app.start(Doubling.call(1), queue=""), "queue"),
        (lambda app: app.start(Doubling.call(1), key=""), "key"),
        (lambda app: app.start(Doubling.call(1), delay="soon"), "soon"),
        (lambda app: app.start(Doubling.call(1), connection=object()), "needs a store in PostgreSQL or SQLite"),
        (lambda app: app.start(Doubling.call(1), retry=3), "retry and timeout are settings of a job"),
        (lambda app: app.start(Workflow.call()), "decorate it with @workflow"),
        (lambda app: app.start(Doubling), r"start takes a call; write app\.start\(Doubling\.call\(\.\.\.\)\)"),
        (lambda app: app.start("double"), r"start takes a call; .*; not 'double'"),
        (lambda app: app.start(double(1), retry=[]), "retry"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_started(
    start: Callable[[App], Awaitable[object]], says: str
) -> None:
    async def scenario() -> None:
        async with opened("memory://") as app:
            with pytest.raises((TypeError, ValueError, LookupError), match=says):
                await start(app)

    asyncio.run(scenario())


@pytest.mark.parametrize("library", ["asyncpg", "psycopg", "psycopg async"])
def test_a_flow_started_in_your_own_transaction_exists_only_if_that_commits(library: str) -> None:
    address = shared_server().fresh_database()

    async def start(app: App, n: int, undo: bool) -> redrive.Handle[int]:
        with contextlib.suppress(KeyError):
            if library == "asyncpg":
                connection = await asyncpg.connect(address)
                try:
                    async with connection.transaction():
                        handle = await app.start(Doubling.call(n), connection=connection)
                        assert not seen, "nobody sees it before the transaction ends"
                        if undo:
                            raise KeyError
                finally:
                    await connection.close()
            elif library == "psycopg":
                with psycopg.connect(address) as plain:
                    handle = await app.start(Doubling.call(n), connection=plain)
                    if undo:
                        raise KeyError
            else:
                async with await psycopg.AsyncConnection.connect(address) as other:
                    handle = await app.start(Doubling.call(n), connection=other)
                    if undo:
                        raise KeyError
        return handle

    async def scenario() -> None:
        async with opened(address) as app:
            undone = await start(app, 1, undo=True)
            with pytest.raises(redrive.FlowNotFoundError):
                await undone.result(timeout=5)
            assert seen == []
            done = await start(app, 2, undo=False)
            assert await done.result(timeout=10) == 4

    asyncio.run(scenario())


def test_a_key_in_a_transaction_that_goes_on_holds_up_only_those_with_a_key() -> None:
    address = shared_server().fresh_database()

    async def scenario() -> None:
        connection, watching = await asyncpg.connect(address), await asyncpg.connect(address)
        stands = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        async with redrive.open(address, worker=False) as app:
            async with connection.transaction():
                theirs = await app.start(Doubling.call(1), key="taken", connection=connection)
                same_key = asyncio.create_task(app.start(Doubling.call(1), key="taken"))
                # Until it stands before the others.
                while not await watching.fetchval(stands):  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
                for n in range(3):
                    await asyncio.wait_for(app.start(Doubling.call(n)), 10)
                assert not same_key.done()
            assert (await same_key).id == theirs.id
        await connection.close()
        await watching.close()

    asyncio.run(scenario())


@redrive.action(name="control.snoozes")
async def snoozes() -> str:
    if current_attempt().number == 1 and not seen:
        seen.append("snoozed")
        raise redrive.Snooze("100ms", "not yet \udc80")
    return "done"


def test_what_is_said_about_flows_must_be_text_and_is_refused_before_anything_changes(address: str) -> None:
    async def main() -> None:
        async with opened(address) as app:
            # What code says of itself is made storable instead.
            handle = await app.start(snoozes())
            assert await handle.result(timeout=20) == "done"
            for wrong, kind in ((None, TypeError), (3, TypeError), ("\udc80", ValueError), ("\x00", ValueError)):
                why: Any = wrong
                for tell in (handle.cancel, handle.pause, handle.resume):
                    with pytest.raises(kind, match=r"why (must be a string|contains NUL)"):
                        await tell(by="ops", why=why)
                for settle in (app.redrive, app.discard):
                    with pytest.raises(kind, match=r"why (must be a string|contains NUL)"):
                        await settle(handle.id, by="ops", why=why)
                with pytest.raises(ValueError, match="queue: use a name"):
                    await app.limit_queue(why, 1)

    asyncio.run(main())


@action(retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def never_ends(password: str) -> None:
    if current_attempt().number == 1:
        raise ConnectionError
    await asyncio.Event().wait()


def test_what_an_app_says_of_flows_shows_neither_their_input_nor_the_tokens_of_attempts() -> None:
    async def main() -> None:
        async with flow_app() as app:
            handle = await app.start(never_ends("hunter2"))
            await app.until(lambda: len(app.witness.executed) == 2)
            (retry,), record = await app.retries(), await app.find(handle.id)
            assert retry.delivery_token
            assert "hunter2" in record.input
            shown = f"{retry!r} {record!r} {retry.__rich_repr__()} {record.__rich_repr__()}"
            assert f"FlowRecord(id='{handle.id}', definition='action:never_ends', input=..., queue='default'" in shown
            assert retry.delivery_token not in shown
            assert "hunter2" not in shown
            await handle.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("queue", ["a\nFORGED", "\x1b[2J", "\x9b2J", "a\x00", "\u2028"], ids=ascii)
def test_a_queue_has_a_name_that_can_be_printed_on_one_line(queue: str) -> None:
    async def main() -> None:
        async with redrive.open("memory://", worker=False) as app:
            with pytest.raises(ValueError, match="queue: use a name of 1 to 200 characters, without control"):
                await app.start(snoozes(), queue=queue)
            with pytest.raises(ValueError, match="queue: use a name of 1 to 200 characters, without control"):
                await app.limit_queue(queue, 1)
        with pytest.raises(ValueError, match="use a name of 1 to 200 characters, without control"):
            redrive.open("memory://", queues=[queue])

    asyncio.run(main())


def test_an_app_that_was_closed_says_so(address: str) -> None:
    async def main() -> None:
        app = redrive.open(address)
        async with app:
            pass
        with pytest.raises(RuntimeError, match=r"this app was closed; open another with redrive.open"):
            await app.__aenter__()

    asyncio.run(main())
