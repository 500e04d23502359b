"""How the attempts of one work item are made: which policy answers, what counts, and what ends them."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import redrive
from redrive import (
    AttemptTimeoutError,
    Policy,
    RetryPolicy,
    Snooze,
    Workflow,
    action,
    constant,
    current_attempt,
    report_of,
)
from redrive.determinism.clock import current_clock
from redrive.flows.events import AttemptReturned, ItemGaveUp
from redrive.flows.graphs.graph import Graph
from redrive.testing import FlowOutcome, flow_app, run_flow


class NetworkError(Exception):
    pass


class Reset(NetworkError):
    pass


class Busy(Exception):
    pass


ERRORS: dict[str, type[Exception]] = {
    "Reset": Reset,
    "Busy": Busy,
    "KeyError": KeyError,
    "Permanent": redrive.Permanent,
}


@action(name="policies.scripted")
async def scripted(script: list[str]) -> str:
    """Fails as the script says, attempt by attempt."""
    number = current_attempt().number
    if number <= len(script):
        what = script[number - 1]
        if what == "slow":
            clock = current_clock()
            await clock.asleep_until(clock.monotonic() + 3600)
        raise ERRORS[what](what)
    return f"done at attempt {number}"


@redrive.workflow(name="policies.One")
class One(Workflow):
    async def run(self, script: list[str], which: str) -> str:
        retry, timeout = CASES[which]
        return await self.run_action(scripted(script), retry=retry, timeout=timeout)


limit = 2
CASES: dict[str, tuple[Any, Any]] = {
    "attempts in all": (RetryPolicy(attempts=3, backoff_seconds=60, jitter=0), None),
    "from a variable": (
        RetryPolicy(attempts=limit + 1, exception_types=[NetworkError], backoff_seconds=60, jitter=0),
        None,
    ),
    "retries": ("[NetworkError -> retry: 3, backoff: 1m]", None),
    "two brackets": ("[NetworkError -> retry: 2, backoff: 1m] [Busy -> retry: 1, backoff: 10s]", None),
    "two policies": (
        [
            RetryPolicy(attempts=3, exception_types=["NetworkError"], backoff_seconds=60, jitter=0),
            RetryPolicy(attempts=2, exception_types=["Busy"], backoff_seconds=timedelta(seconds=10), jitter=0),
        ],
        None,
    ),
    "timeout": (RetryPolicy(attempts=3, backoff_seconds=1, jitter=0), timedelta(seconds=20)),
    "timeout bracket": ("[NetworkError -> retry: 1] [timeout: 20s]", None),
    "fraction": (RetryPolicy(attempts=2, jitter=0), 0.5),
    "policy": (Policy(attempts=3, backoff=constant(5), jitter=redrive.policies.Jitter("none"), deadline=None), None),
}


@pytest.mark.promise("R2", "R3", "R5", "R10")
@pytest.mark.parametrize(
    ("which", "script", "waits", "ending"),
    [
        ("attempts in all", ["Reset", "Busy"], [60, 120], "done at attempt 3"),
        ("attempts in all", ["Reset"] * 3, [60, 120], Reset),
        ("from a variable", ["Reset"] * 2, [60, 120], "done at attempt 3"),
        ("from a variable", ["Reset"] * 3, [60, 120], Reset),
        ("from a variable", ["KeyError"], [], KeyError),
        ("retries", ["Reset"] * 3, [60, 120, 240], "done at attempt 4"),
        ("retries", ["Reset"] * 4, [60, 120, 240], Reset),
        ("retries", ["Busy"], [], Busy),
        # Each has its own counter and its own backoff; the base class matches.
        ("two brackets", ["Reset", "Busy", "Reset"], [60, 10, 120], "done at attempt 4"),
        ("two brackets", ["Busy", "Busy"], [10], Busy),
        ("two brackets", ["Reset", "Busy", "Reset", "Reset"], [60, 10, 120], Reset),
        ("two brackets", ["Reset", "KeyError"], [60], KeyError),
        ("two policies", ["Reset", "Busy", "Reset"], [60, 10, 120], "done at attempt 4"),
        ("two policies", ["Busy", "Reset", "Busy"], [10, 60], Busy),
        ("two policies", ["Permanent"], [], redrive.Permanent),
        ("timeout", ["slow", "slow"], [1, 2], "done at attempt 3"),
        ("timeout", ["slow"] * 3, [1, 2], AttemptTimeoutError),
        ("fraction", ["slow"], [0.1], "done at attempt 2"),
        ("policy", ["Busy"], [], Busy),
    ],
)
def test_each_failure_is_answered_by_the_first_policy_that_matches_it(
    which: str, script: list[str], waits: list[float], ending: Any
) -> None:
    outcome = run_flow(One.call(script, which))
    assert outcome.waits == waits
    if isinstance(ending, str):
        assert outcome.result == ending
        return
    assert type(outcome.error) is ending
    report = report_of(outcome.error)
    assert report is not None
    assert [record.number for record in report.attempts] == [*range(1, len(script) + 1)]


@pytest.mark.promise("R4")
def test_a_timeout_bracket_limits_each_attempt() -> None:
    outcome = run_flow(One.call(["slow", "slow"], "timeout bracket"))
    assert isinstance(outcome.error, AttemptTimeoutError)
    assert outcome.duration >= 20


@pytest.mark.promise("A12")
def test_the_receipt_token_is_the_same_on_every_attempt_and_the_delivery_token_is_not() -> None:
    seen: list[tuple[str, str, int]] = []

    @action(name="policies.tokens")
    async def tokens() -> None:
        attempt = current_attempt()
        seen.append((attempt.receipt_token, attempt.delivery_token, attempt.number))
        raise NetworkError

    outcome = run_flow(tokens())
    assert outcome.status == "failed"

    @redrive.workflow(name="policies.Tokens")
    class Tokens(Workflow):
        async def run(self) -> None:
            await self.run_action(tokens(), retry=RetryPolicy(attempts=4, backoff_seconds=86_400))

    seen.clear()
    run_flow(Tokens.call())
    receipts, deliveries, numbers = zip(*seen, strict=True)
    assert len(set(receipts)) == 1
    assert len(set(deliveries)) == 4
    assert numbers == (1, 2, 3, 4)


def test_a_snoozed_attempt_comes_back_later_with_the_same_number() -> None:
    numbers: list[int] = []

    @action(name="policies.snoozes", retry=RetryPolicy(attempts=2, backoff_seconds=60, jitter=0))
    async def snoozes() -> str:
        numbers.append(current_attempt().number)
        if len(numbers) in (1, 3):
            raise Snooze("1h", "not ready yet")
        if len(numbers) == 2:
            raise NetworkError
        return "ready"

    outcome = run_flow(snoozes())
    assert outcome.result == "ready"
    assert numbers == [1, 1, 2, 2]
    assert outcome.duration == 3600 + 60 + 3600
    assert [line.event.reason for line in outcome.lines if isinstance(line.event, AttemptReturned)] == [
        "not ready yet",
        "not ready yet",
    ]


@pytest.mark.promise("P18")
def test_arguments_that_no_longer_decode_are_poison_at_once() -> None:
    def version(hint: Any) -> Any:
        @action(name="policies.changed", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
        async def changing(amount: Any) -> None:
            raise NetworkError

        changing.function.__annotations__["amount"] = hint
        return changing

    old = version(str)

    async def story() -> tuple[FlowOutcome, Any]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(old("ten"))
                await app.settled(handle)
                version(int)
            return await app.outcome(handle), (await app.dead_letters())[0]

    outcome, dead = asyncio.run(story())
    assert isinstance(outcome.error, redrive.errors.DeserializationError)
    assert dead.kind == "poison"
    assert outcome.waits == [3600]
    assert "policies.changed" in str(outcome.error)
    report = redrive.report_of(outcome.error)
    assert report is not None
    assert "does not fit the current code" in report.next_step


@action(name="policies.away", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
async def away() -> str:
    raise NetworkError


def version(hint: Any) -> Any:
    """The same workflow, with another type of its input."""

    @redrive.workflow(name="policies.Changing")
    class Changing(Workflow):
        async def run(self, amount: Any) -> None:
            await away()

        run.__annotations__["amount"] = hint

    return Changing


@pytest.mark.promise("P18")
def test_a_flow_whose_input_no_longer_decodes_leaves_the_retry_queue() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(version(str).call("ten"))
                await app.settled(handle)
                assert len(await app.retries()) == 1
                version(int)
            assert isinstance((await app.outcome(handle)).error, redrive.errors.DeserializationError)
            assert not await app.retries()

    asyncio.run(story())


def test_a_flow_whose_input_no_longer_decodes_can_still_be_cancelled() -> None:
    """It is taken up because of the order to cancel, and is no dead letter then."""

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(version(str).call("ten"))
                await app.settled(handle)
                await app.kill()
                version(int)
                await handle.cancel(by="ann", why="ordered twice")
                app.revive()
                assert (await app.outcome(handle)).status == "cancelled"
            assert "cancelled by ann (ordered twice)" in (await app.explain(handle.id)).headline
            assert not await app.retries()
            assert not await app.dead_letters()

    asyncio.run(story())


def test_what_was_said_by_hand_to_a_flow_whose_input_no_longer_decodes_is_told_as_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(version(str).call("ten"))
                await app.settled(handle)
                await app.kill()
                version(int)
                await app.complete_step(handle.id, "policies.away", "yes", by="ann", why="she said so")
                app.revive()
                assert (await app.outcome(handle)).status == "failed"

    asyncio.run(story())
    (dropped,) = (line for record in caplog.records if "is dropped" in (line := record.getMessage()))
    assert dropped.endswith("fails, and a message to it is dropped: CompleteItem")


def test_an_action_that_is_gone_is_poison_too() -> None:
    from redrive.flows.action import ACTIONS

    @action(name="policies.gone", retry=RetryPolicy(attempts=9, backoff_seconds=3600))
    async def gone() -> None:
        raise NetworkError

    @redrive.workflow(name="policies.CallsGone")
    class CallsGone(Workflow):
        async def run(self) -> None:
            await gone()

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(CallsGone.call())
                await app.settled(handle)
                del ACTIONS.by_name["policies.gone"]
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.status == "failed"
    assert "no action is named 'policies.gone'" in str(outcome.error)


DEADLINE = Policy(
    attempts=2,
    backoff=constant(600),
    jitter=redrive.policies.Jitter("none"),
    max_wait=None,
    deadline=3600,
    retry_on=redrive.ANYTHING,
)


@pytest.mark.promise("P6")
@pytest.mark.parametrize("how", ["fails", "snoozes", "hangs"])
def test_no_attempt_begins_after_a_deadline_that_passed_while_nobody_worked(how: str) -> None:
    begun: list[int] = []

    @action(name="policies.due", retry=DEADLINE)
    async def due() -> None:
        begun.append(current_attempt().number)
        if how == "snoozes":
            raise Snooze(600)
        if how == "hangs":
            await asyncio.Event().wait()
        raise NetworkError("no answer")

    async def story() -> tuple[FlowOutcome, Any]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(due())
                await app.until(lambda: begun)
                if how != "hangs":
                    await app.settled(handle)
                await app.kill()
                app.clock.advance(7200)
                app.revive()
            return await app.outcome(handle), (await app.dead_letters())[0]

    outcome, dead = asyncio.run(story())
    assert begun == [1]
    assert dead.kind == "deadline"
    if how == "fails":
        assert isinstance(outcome.error, NetworkError)
        gave_up = next(line.event for line in outcome.lines if isinstance(line.event, ItemGaveUp))
        assert "3600 s" in gave_up.decision.because.detail


@pytest.mark.promise("P6")
@pytest.mark.parametrize("parallelism", [None, 1])
def test_no_attempt_begins_after_a_deadline_that_passed_while_it_stood_in_line(parallelism: int | None) -> None:
    """For a place in the worker, or for one in its lane."""

    @action(name="policies.in_line")
    async def in_line(order: int) -> int:
        clock = current_clock()
        if order == 1:
            await clock.asleep_until(clock.monotonic() + 60)
            raise NetworkError("no answer")
        await clock.asleep_until(clock.monotonic() + 3590)
        return order

    graph = Graph("policies-in-line").step(
        "in_line",
        in_line,
        inputs={"order": {"type": "integer", "from": "orders"}},
        for_each="order",
        outputs={"done": "integer"},
        parallelism=parallelism,
        retry=DEADLINE,
    )

    async def story() -> FlowOutcome:
        async with flow_app(concurrency=10 if parallelism else 1) as app:
            return await app.outcome(await app.start(graph.call({"orders": [1, 2]})))

    outcome = asyncio.run(story())
    assert [one.attempt for one in outcome.executed if one.item == 1] == [1]
    gave_up = [line.event for line in outcome.lines if isinstance(line.event, ItemGaveUp)]
    assert [(event.item, event.decision.kind) for event in gave_up] == [(1, "deadline")]


def test_flows_that_were_due_while_nobody_worked_go_on_at_once_with_their_counts() -> None:
    numbers: list[int] = []

    @action(name="policies.counts", retry=RetryPolicy(attempts=4, backoff_seconds=1800, jitter=0))
    async def counts() -> str:
        numbers.append(current_attempt().number)
        if len(numbers) < 3:
            raise NetworkError
        return "done"

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(counts())
                await app.settled(handle)
                await app.kill()
                app.clock.advance(86_400)
                app.revive()
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert numbers == [1, 2, 3]
    assert outcome.duration == 86_400 + 3600
