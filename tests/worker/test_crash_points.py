"""The worker is killed at every commit, on both sides of it: the outcome is the same, and nothing is done again."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import redrive
from redrive import AttemptTimeoutError, RetryPolicy, Workflow, action, current_attempt, report_of, workflow
from redrive.determinism.clock import current_clock
from redrive.flows.events import AnyEvent, AttemptCleared, AttemptFailed, AttemptStarted
from redrive.stores.leases import Lease
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import Batch
from redrive.testing import CrashedRun, FlowApp, FlowOutcome, crash_everywhere, flow_app, run_flow
from redrive.worker import slots

TOKENS: dict[str, set[str]] = {}
"""Receipt tokens by flow and item."""


class NetworkError(Exception):
    pass


class SlowNetwork(NetworkError):
    pass


def failures_before() -> int:
    """How often this item has failed by itself: what the log says, attempts that were lost not counted."""
    attempt = current_attempt()
    TOKENS.setdefault(f"{attempt.flow_id}.{attempt.item}", set()).add(attempt.receipt_token)
    details = attempt.last_details
    return int(details or 0)


@action(name="crash.work")
async def work(name: str, fails: int = 0, error: str = "SlowNetwork") -> str:
    """Fails that often, counted by heartbeats: the attempt that is lost leaves no trace."""
    before = failures_before()
    if before < fails:
        current_attempt().heartbeat(before + 1)
        raise {"SlowNetwork": SlowNetwork, "Permanent": redrive.Permanent, "KeyError": KeyError}[error](name)
    return name


@action(name="crash.plain_work")
def plain_work(name: str) -> str:
    return name.upper()


@action(name="crash.take_long")
async def take_long() -> None:
    clock = current_clock()
    await clock.asleep_until(clock.monotonic() + 3600)


@action(name="crash.hang")
async def hang() -> None:
    await asyncio.Event().wait()


PATIENT = RetryPolicy(attempts=6, exception_types=["NetworkError"], backoff_seconds=60, jitter=0)


@workflow(name="crash.Everything")
class Everything(Workflow):
    """Sequential, parallel, failing-then-handled, retried and timed-out actions, sleeps, and ordinary Python."""

    async def run(self, names: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {"order": []}
        for index, name in enumerate(names):
            found["order"].append(await work(f"{index}-{name}"))
        found["retried"] = await self.run_action(work("retried", 2), retry=PATIENT)
        found["parallel"] = await asyncio.gather(
            self.run_action(work("left", 1), retry=PATIENT), plain_work("right"), self.nested("nested")
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(name)) for name in names]
        found["group"] = {name: task.result() for name, task in zip(names, tasks, strict=True)}
        try:
            await self.run_action(work("refused", 9, "Permanent"), retry=PATIENT)
        except redrive.Permanent as error:
            found["handled"] = f"{type(error).__name__}: {error}"
        else:
            found["handled"] = "unreached"
        finally:
            found["cleaned"] = await plain_work("cleaned")
        some = await asyncio.gather(work("unmatched", 1, "KeyError"), work("fine"), return_exceptions=True)
        found["some"] = [repr(one) for one in some]
        try:
            await self.run_action(take_long(), retry=[RetryPolicy(attempts=3, jitter=0)], timeout=timedelta(seconds=30))
        except AttemptTimeoutError:
            found["timeout"] = True
        try:
            async with asyncio.timeout(5):
                await take_long()
        except TimeoutError:
            found["cut"] = [await work(f"after {step}") for step in ("cut",)]
        await asyncio.sleep(86_400)
        return found

    async def nested(self, name: str) -> str:
        await asyncio.sleep(10)
        return "+".join([await work(name), await plain_work(name)])


EXPECTED = {
    "order": ["0-a", "1-b"],
    "retried": "retried",
    "parallel": ["left", "RIGHT", "nested+NESTED"],
    "group": {"a": "a", "b": "b"},
    "handled": "Permanent: refused",
    "cleaned": "CLEANED",
    "some": ["KeyError('unmatched')", "'fine'"],
    "timeout": True,
    "cut": ["after cut"],
}


def completed(outcome: FlowOutcome) -> Counter[str]:
    """The actions that were carried out to their end, with how they ended."""
    items = outcome.history.items.values()
    return Counter(f"{item.step}({bytes(item.args).decode()}) {item.state}" for item in items)


def counted(outcome: FlowOutcome, lost: Counter[int]) -> Counter[str]:
    """The attempts of each action, without those that were lost."""
    items = [item for item in outcome.history.items.values() if item.state != "cancelled"]
    return Counter(f"{item.step}({bytes(item.args).decode()}) {item.attempt - lost[item.number]}" for item in items)


def check_attempts(plain: FlowOutcome, run: CrashedRun) -> None:
    """Lost attempts come on top of those that were made without a crash, and numbers are never used twice."""
    crashed: FlowOutcome = run.outcome
    lost = Counter(
        line.event.item
        for line in crashed.lines
        if isinstance(line.event, AttemptFailed) and line.event.failure.kind == "lost"
    )
    assert counted(crashed, lost) == counted(plain, Counter()), run.where
    made = [(one.item, one.attempt) for one in crashed.executed]
    assert len(made) == len(set(made)), run.where
    assert all(TOKENS[f"{crashed.flow_id}.{item}"] == {f"{crashed.flow_id}.{item}"} for item, _ in made if item == 1)


@pytest.mark.promise("A14", "R9", "R10", "R11", "A12")
def test_everything_goes_on_as_if_nothing_had_happened() -> None:
    plain = run_flow(Everything.call(["a", "b"]))
    assert plain.result == EXPECTED
    runs = crash_everywhere(Everything.call(["a", "b"]))
    assert len(runs) > 50
    for run in runs:
        assert run.crashed
        assert run.outcome.result == EXPECTED
        assert completed(run.outcome) == completed(plain), run.where
        check_attempts(plain, run)
    assert any(len(run.executed) > len(plain.executed) for run in runs), "no attempt was ever lost"


@pytest.mark.promise("A14")
def test_the_same_on_a_database(tmp_path: Path) -> None:
    @workflow(name="crash.Shorter")
    class Shorter(Workflow):
        async def run(self) -> list[str]:
            one = await self.run_action(work("one", 1), retry=PATIENT)
            several = await asyncio.gather(work("two"), plain_work("three"))
            try:
                await work("four", 1, "KeyError")
            except KeyError:
                await asyncio.sleep(60)
            return [one, *several, str(workflow.uuid())]

    numbers = iter(range(1000))
    runs = crash_everywhere(Shorter.call(), store=lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db")
    assert {tuple(run.outcome.result[:3]) for run in runs} == {("one", "two", "THREE")}
    assert sum(run.crashed for run in runs) > 10


@pytest.mark.promise("A9", "A13", "R2")
def test_the_log_has_each_wait_and_a_retry_never_comes_before_its_time() -> None:
    outcome = run_flow(Everything.call(["a"]))
    assert outcome.waits == [60, 120, 60, 0.1, 0.1]
    assert 86_400 in outcome.sleeps
    for seq, _, event in outcome.lines:
        if isinstance(event, AttemptFailed) and isinstance(event.decision, redrive.policies.RetryAt):
            later = [line for line in outcome.lines[seq:] if getattr(line.event, "item", 0) == event.item]
            assert later[0].at == pytest.approx(event.decision.when, abs=1e-6)
    # 2 retries, the nested sleep (its minute is shorter than the retry beside it), 3 timeouts, one cut, one day.
    assert outcome.duration == pytest.approx(60 + 120 + 60 + (30 + 0.1 + 45 + 0.1 + 45) + 5 + 86_400, abs=1e-3)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_an_item_that_loses_its_worker_three_times_while_no_other_suspect_runs_is_poison(
    store: str, tmp_path: Path
) -> None:
    @workflow(name="crash.Poisonous")
    class Poisonous(Workflow):
        async def run(self) -> str:
            await work("before")
            await self.run_action(hang(), retry=RetryPolicy(attempts=None))
            return "unreached"

    async def story() -> tuple[FlowOutcome, Any]:
        async with flow_app("memory://" if store == "memory" else f"sqlite:///{tmp_path}/a.db") as app:
            handle = await app.start(Poisonous.call())
            for number in range(1, 6):
                hung = [*range(1, number + 1)]
                await app.until(lambda hung=hung: attempts_of(app, "crash.hang") == hung)  # type: ignore[misc]
                await app.kill()
                app.revive()
            return await app.outcome(handle), await app.dead_letters()

    outcome, dead = asyncio.run(story())
    assert isinstance(outcome.error, redrive.errors.AttemptLostError)
    report = report_of(outcome.error)
    assert report is not None
    assert [record.failure.kind for record in report.attempts] == ["lost"] * 5
    # Until it is a suspect, it may have been any other.
    assert [record.failure.blamed for record in report.attempts] == [False, False, True, True, True]
    assert (report.gave_up.kind, dead[0].kind, dead[0].attempts) == ("poison", "poison", 5)
    assert outcome.attempts == {1: 1, 2: 5}


@pytest.mark.promise("X3")
def test_suspects_run_one_after_the_other_and_one_that_lives_long_is_no_longer_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "ALONE_FOR", 0.2)

    @workflow(name="crash.TwoSuspects")
    class TwoSuspects(Workflow):
        async def run(self) -> None:
            await asyncio.gather(*(self.run_action(hang(), retry=RetryPolicy(attempts=None)) for _ in range(2)))

    async def story() -> list[AnyEvent]:
        async with flow_app() as app:
            handle = await app.start(TwoSuspects.call())
            for number in (2, 4, 6):
                await app.until(lambda number=number: len(app.witness.executed) == number)  # type: ignore[misc]
                await app.kill()
                app.revive()
            await app.until(lambda: len(app.witness.executed) > 6)
            return [line.event for line in await app.read_lines(handle.id)]

    log = asyncio.run(story())
    alone = [event for event in log if isinstance(event, AttemptStarted) and event.alone]
    (cleared,) = [event for event in log if isinstance(event, AttemptCleared)]
    assert (cleared.item, cleared.attempt) == (alone[0].item, 3)
    # The second began once that was in the log.
    assert log.index(alone[1]) > log.index(cleared)
    third = {event.item: event for event in log if isinstance(event, AttemptFailed) and event.attempt == 3}
    assert [third[event.item].failure.blamed for event in alone[:2]] == [False, True]


@pytest.mark.promise("P17")
def test_a_lost_attempt_counts_so_that_a_single_attempt_is_not_made_again() -> None:
    @workflow(name="crash.Once")
    class Once(Workflow):
        async def run(self) -> str:
            return await self.run_action(work("once"), retry=RetryPolicy(attempts=1))

    with pytest.raises(AssertionError) as failed:
        crash_everywhere(Once.call())
    text = str(failed.value)
    assert "killed right after commit 1 of 2" in text
    assert "without: completed with 'once'" in text
    assert "with:    failed with AttemptLostError" in text
    assert "Work of a single attempt is not repeated when its worker is lost" in text
    assert "AttemptFailed item=1 attempt=1" in text


def attempts_of(app: FlowApp, step: str) -> list[int]:
    return [one.attempt for one in app.witness.executed if one.step == step]


GATES: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}


def gate() -> asyncio.Event:
    return GATES.setdefault(asyncio.get_running_loop(), asyncio.Event())


@action(name="crash.through_the_gate")
async def through_the_gate() -> str:
    await gate().wait()
    return "through"


@workflow(name="crash.Cleaning")
class Cleaning(Workflow):
    async def run(self) -> list[str]:
        try:
            return [await through_the_gate(), await work("more")]
        finally:
            await work("cleaned up")


def told(what: str) -> Callable[[FlowApp], Any]:
    """A flow that is told something while it works."""

    async def story(app: FlowApp) -> Any:
        handle = await app.start(Cleaning.call())
        await app.until(lambda: attempts_of(app, "crash.through_the_gate"))
        if what == "cancel":
            await handle.cancel(by="ann", why="enough")
        else:
            await handle.pause()
            gate().set()
            assert (await app.outcome(handle)).status == "paused"
            await handle.resume()
        outcome = await app.outcome(handle)
        while outcome.status == "paused":
            outcome = await app.outcome(handle)
            await asyncio.sleep(0.001)
        result = outcome.result if outcome.status == "completed" else None
        return outcome.status, result, outcome.steps

    return story


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("cancel", ("cancelled", None, ["crash.through_the_gate", "crash.work"])),
        ("pause", ("completed", ["through", "more"], ["crash.through_the_gate", "crash.work", "crash.work"])),
    ],
)
def test_what_a_flow_was_told_is_not_lost(what: str, expected: Any) -> None:
    for run in crash_everywhere(told(what)):
        assert run.outcome == expected, run.where


def test_a_redrive_is_not_lost_either() -> None:
    @workflow(name="crash.Mended")
    class Mended(Workflow):
        async def run(self) -> list[str]:
            first = await work("first")
            both = await asyncio.gather(self.run_action(work("second", 1, "Permanent")), work("beside"))
            return [first, *both]

    async def story(app: FlowApp) -> Any:
        handle = await app.start(Mended.call())
        failed = await app.outcome(handle)
        assert failed.status == "failed"
        await app.redrive(handle.id, by="ann", why="mended")
        outcome = await app.outcome(handle)
        while outcome.status == "failed":
            await asyncio.sleep(0.001)
            outcome = await app.outcome(handle)
        return outcome.result

    for run in crash_everywhere(story):
        assert run.outcome == ["first", "second", "beside"]


# Random workflows

Program = list[Any]


@workflow(name="crash.Random")
class Random(Workflow):
    """Runs a program: small, but any."""

    async def run(self, program: Program) -> Any:
        return await self.step(program)

    async def step(self, program: Program) -> Any:
        kind, *rest = program
        if kind == "work":
            name, fails, error = rest
            return await self.run_action(work(name, fails, error), retry=RetryPolicy(9, ["NetworkError"], 7.0))
        if kind == "plain":
            return await plain_work(rest[0])
        if kind == "sleep":
            await asyncio.sleep(rest[0])
            return None
        if kind == "sequence":
            return [await self.step(one) for one in rest]
        if kind == "parallel":
            return list(await asyncio.gather(*(self.step(one) for one in rest)))
        if kind == "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.step(one)) for one in rest]
            return [task.result() for task in tasks]
        if kind == "loop":
            return [await self.step(rest[1]) for _ in range(rest[0])]
        try:
            return await self.step(rest[0])
        except (redrive.Permanent, KeyError) as error:
            return [type(error).__name__, await self.step(rest[1])]
        finally:
            await self.step(rest[2])


names = st.sampled_from("abc")
leaves = st.one_of(
    st.tuples(st.just("work"), names, st.integers(0, 2), st.sampled_from(["SlowNetwork", "SlowNetwork", "Permanent"])),
    st.tuples(st.just("plain"), names),
    st.tuples(st.just("sleep"), st.sampled_from([0, 0.5, 3, 60])),
)
programs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("sequence"), inner, inner),
        st.tuples(st.just("parallel"), inner, inner),
        st.tuples(st.just("loop"), st.integers(0, 2), inner),
        st.tuples(st.just("try"), inner, inner, inner),
    ),
    max_leaves=5,
)


def as_lists(program: Any) -> Any:
    return [as_lists(one) for one in program] if isinstance(program, tuple) else program


@settings(max_examples=12)
@given(programs.map(as_lists))
@example(
    ["parallel", ["work", "a", 2, "SlowNetwork"], ["try", ["work", "b", 1, "Permanent"], ["plain", "c"], ["sleep", 3]]]
)
@example(["group", ["sleep", 60], ["sequence", ["work", "a", 1, "SlowNetwork"], ["work", "b", 0, "SlowNetwork"]]])
def test_random_workflows_end_the_same_wherever_the_worker_dies(program: Program) -> None:
    """That what was done is never redone, the kit itself sees to: each run is watched."""
    plain = run_flow(Random.call(program))
    for run in crash_everywhere(Random.call(program)):
        if plain.status == "completed":
            assert completed(run.outcome) == completed(plain), f"{run.where}\n{run.outcome}"


class Amnesiac(MemoryStore):
    """Says that the end of an item is durable, and forgets it, once."""

    forgets = True

    async def commit(self, lease: Lease, batch: Batch) -> None:
        if self.forgets and any('"item_completed"' in event.body for event in batch.events):
            self.forgets = False
        else:
            await super().commit(lease, batch)


def test_the_kit_sees_work_that_is_done_again() -> None:
    @workflow(name="crash.Two")
    class Two(Workflow):
        async def run(self) -> str:
            return await work("one") + await work("two")

    with pytest.raises(
        AssertionError, match=r"attempt 2 of crash.work .* started although the item had ended already"
    ) as seen:
        crash_everywhere(Two.call(), store=Amnesiac)
    assert "killed right after commit 2" in "".join(seen.value.__notes__)
