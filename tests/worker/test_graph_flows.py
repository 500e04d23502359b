"""Graphs on the engine: the same events, retries and crash guarantees as workflows have."""

import asyncio
from typing import Any

import pytest

import redrive
from redrive import RetryPolicy, action
from redrive.client.reported_outcomes import read_outcome
from redrive.errors import InvalidOutcomeError
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemCancelled, ItemCompleted, ItemStarted, StepSettled
from redrive.flows.graphs.graph import Graph
from redrive.testing import FlowApp, FlowOutcome, flow_app

RAN: list[str] = []
BROKEN: set[str] = set()
FLAKY: dict[str, int] = {}
AT_ONCE: list[int] = [0, 0]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()
    BROKEN.clear()
    FLAKY.clear()
    AT_ONCE[:] = [0, 0]


def went(what: str) -> None:
    RAN.append(what)
    if what in BROKEN:
        raise redrive.Permanent(f"{what} is broken")
    if FLAKY.get(what, 0) > 0:
        FLAKY[what] -= 1
        raise ConnectionError(f"{what} is away")


@action(name="graph.reserve")
async def reserve(order: str) -> dict[str, str]:
    went(f"reserve {order}")
    return {"reservation": f"r-{order}"}


@action(name="graph.charge")
async def charge(order: str, total: int) -> dict[str, str]:
    went(f"charge {order} {total}")
    return {"payment": f"p-{order}"}


@action(name="graph.ship")
async def ship(reservation: str, payment: str) -> dict[str, str]:
    went(f"ship {reservation} {payment}")
    return {"parcel": f"{reservation}+{payment}"}


@action(name="graph.release")
async def release(reservation: str) -> None:
    went(f"release {reservation}")


@action(name="graph.refund")
async def refund(payment: str) -> None:
    went(f"refund {payment}")


@action(name="graph.pack")
async def pack(line: int) -> int:
    AT_ONCE[0] += 1
    AT_ONCE[1] = max(AT_ONCE)
    try:
        await asyncio.sleep(0)
        went(f"pack {line}")
    finally:
        AT_ONCE[0] -= 1
    return line * 10


@action(name="graph.mail")
async def mail(order: str) -> None:
    went(f"mail {order}")


QUICK = RetryPolicy(attempts=3, backoff_seconds=60)


def order_graph() -> Graph:
    return (
        Graph("order", goals=["ship"], also=["mail"])
        .step("reserve", reserve, outputs=["reservation"], retry=QUICK, compensate="release")
        .step("charge", charge, outputs=["payment"], retry=QUICK, compensate="refund")
        .step("ship", ship, outputs=["parcel"], retry=QUICK)
        .step("mail", mail, retry=QUICK)
        .step("release", release)
        .step("refund", refund)
    )


ORDER = {"order": "o1", "total": 5}


def run(graph: Graph, inputs: dict[str, Any], after: Any = None) -> FlowOutcome:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            redrive.register_graph(graph)
            handle = await app.start(graph.call(inputs))
            outcome = await app.outcome(handle)
            if after is not None:
                outcome = await after(app, handle)
            return outcome

    return asyncio.run(story())


def states(outcome: FlowOutcome) -> dict[str, str]:
    return {line.event.step: line.event.state for line in outcome.lines if isinstance(line.event, StepSettled)}


@pytest.mark.promise("A1")
def test_a_graph_runs_to_its_goals_by_data_flow() -> None:
    FLAKY["charge o1 5"] = 2
    outcome = run(order_graph(), ORDER)
    assert outcome.status == "completed"
    assert outcome.result == {"parcel": "r-o1+p-o1"}
    assert RAN[-1] == "ship r-o1 p-o1"
    assert RAN.count("charge o1 5") == 3
    assert outcome.duration >= 120


@pytest.mark.promise("A10", "A11")
def test_a_goal_that_fails_fails_the_flow_and_what_had_succeeded_is_undone_newest_first() -> None:
    BROKEN.add("ship r-o1 p-o1")
    FLAKY["refund p-o1"] = 1
    outcome = run(order_graph(), ORDER)
    assert outcome.status == "failed"
    assert isinstance(outcome.error, redrive.Permanent)
    undone = [one for one in RAN if one.startswith(("refund", "release"))]
    # The payment came last or first; both are undone, one after the other, and the refund was retried.
    assert sorted(set(undone)) == ["refund p-o1", "release r-o1"]
    assert undone.count("refund p-o1") == 2


@pytest.mark.promise("A11")
def test_a_failed_step_beside_reached_goals_does_not_fail_the_flow() -> None:
    BROKEN.add("mail o1")
    outcome = run(order_graph(), ORDER)
    assert outcome.status == "completed"
    assert states(outcome) == {"mail": "failed"}


def packing(parallelism: int | None = None, attempts: int = 3) -> Graph:
    return Graph("packing").step(
        "pack",
        pack,
        inputs={"line": {"type": "integer", "from": "lines"}},
        for_each="line",
        outputs={"boxes": "integer"},
        parallelism=parallelism,
        retry=RetryPolicy(attempts=attempts, backoff_seconds=60),
    )


@pytest.mark.promise("A15")
def test_results_are_in_input_order_and_parallelism_bounds_what_runs_at_once() -> None:
    FLAKY["pack 1"] = 2
    outcome = run(packing(parallelism=2), {"lines": list(range(7))})
    assert outcome.result == {"boxes": [0, 10, 20, 30, 40, 50, 60]}
    assert AT_ONCE[1] == 2


@pytest.mark.promise("A15")
def test_an_item_in_backoff_lets_another_run() -> None:
    FLAKY["pack 0"] = 1
    outcome = run(packing(parallelism=1), {"lines": [0, 1, 2]})
    assert outcome.status == "completed"
    assert RAN == ["pack 0", "pack 1", "pack 2", "pack 0"]


@pytest.mark.promise("A10")
def test_one_item_that_fails_for_good_fails_its_step_and_items_that_wait_are_abandoned() -> None:
    FLAKY["pack 0"] = 99
    BROKEN.add("pack 1")
    outcome = run(packing(parallelism=1), {"lines": [0, 1, 2, 3]})
    assert outcome.status == "failed"
    # Item 0 was in backoff and 2 and 3 had not begun.
    assert RAN == ["pack 0", "pack 1"]
    assert len([1 for line in outcome.lines if isinstance(line.event, ItemCancelled)]) == 3


@pytest.mark.promise("A10")
def test_an_item_that_runs_when_its_step_fails_may_end_and_is_not_retried() -> None:
    FLAKY["pack 1"] = 99
    BROKEN.add("pack 0")
    outcome = run(packing(), {"lines": [0, 1]})
    assert outcome.status == "failed"
    assert RAN == ["pack 0", "pack 1"]
    gave_up = [line.event for line in outcome.lines if isinstance(line.event, AttemptFailed)]
    assert [getattr(one.decision, "kind", "retry") for one in gave_up] == ["permanent", "abandoned"]


def test_an_empty_list_completes_its_step() -> None:
    outcome = run(packing(), {"lines": []})
    assert (outcome.status, outcome.result) == ("completed", {"boxes": []})


def test_a_condition_that_is_false_skips_the_step() -> None:
    graph = (
        Graph("gift")
        .step("mail", mail, when="order != 'o1'")
        .step("reserve", reserve, outputs=["reservation"], depends_on=["mail"])
    )
    outcome = run(graph, {"order": "o1"})
    assert outcome.status == "completed"
    assert RAN == ["reserve o1"]
    assert states(outcome) == {"mail": "skipped"}


@action(name="graph.wrong")
async def wrong() -> int:
    return 7


def test_outputs_that_are_not_what_was_declared_fail_for_good_at_once() -> None:
    graph = Graph("wrong").step("wrong", wrong, outputs={"name": "string"}, retry=QUICK)
    outcome = run(graph, {})
    assert outcome.status == "failed"
    assert "string" in str(outcome.error)
    assert sum(isinstance(line.event, ItemStarted) for line in outcome.lines) == 1


# Redrive and operators


def no_undo() -> Graph:
    return (
        Graph("order_kept", goals=["ship"])
        .step("reserve", reserve, outputs=["reservation"], retry=QUICK)
        .step("charge", charge, outputs=["payment"], retry=QUICK)
        .step("ship", ship, outputs=["parcel"], retry=QUICK)
    )


async def mended(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
    BROKEN.clear()
    await app.redrive(handle.id, by="ann", why="mended")
    return await app.outcome(handle)


@pytest.mark.promise("T10")
def test_a_redrive_tries_again_all_that_failed_and_nothing_else() -> None:
    BROKEN.update({"reserve o1", "charge o1 5"})
    outcome = run(no_undo(), ORDER, after=mended)
    assert outcome.status == "completed"
    assert sorted(RAN) == ["charge o1 5", "charge o1 5", "reserve o1", "reserve o1", "ship r-o1 p-o1"]


@pytest.mark.promise("T10")
def test_a_failed_for_each_goes_on_with_its_other_items_after_a_redrive() -> None:
    FLAKY["pack 0"] = 2
    BROKEN.add("pack 1")
    outcome = run(packing(parallelism=1), {"lines": [0, 1, 2, 3]}, after=mended)
    assert outcome.result == {"boxes": [0, 10, 20, 30]}
    assert RAN.count("pack 2") == RAN.count("pack 3") == 1


@pytest.mark.promise("T10")
def test_a_failed_step_is_completed_by_hand_and_the_flow_goes_on() -> None:
    async def by_hand(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        await app.complete_step(handle.id, "charge", {"payment": "cash"}, by="ann", why="paid at the desk")
        return await app.outcome(handle)

    BROKEN.add("charge o1 5")
    outcome = run(no_undo(), ORDER, after=by_hand)
    assert outcome.result == {"parcel": "r-o1+cash"}
    assert RAN.count("charge o1 5") == 1
    [done] = [one for one in events(outcome, ItemCompleted) if one.by]
    assert (done.by, done.why) == ("ann", "paid at the desk")


@pytest.mark.promise("T10")
def test_a_failed_step_is_resolved_by_hand_and_what_depends_on_it_goes_on() -> None:
    async def by_hand(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        await app.resolve_step(handle.id, "mail", by="ann", why="called them")
        return await app.outcome(handle)

    BROKEN.add("mail o1")
    graph = Graph("told").step("mail", mail).step("reserve", reserve, outputs=["reservation"], depends_on=["mail"])
    outcome = run(graph, {"order": "o1"}, after=by_hand)
    assert outcome.status == "completed"
    assert RAN == ["mail o1", "reserve o1"]


@pytest.mark.promise("T10")
def test_a_step_that_waits_is_reset_and_runs_at_once_with_a_fresh_allowance() -> None:
    FLAKY["mail o1"] = 3

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            graph = Graph("slow").step("mail", mail, retry=RetryPolicy(attempts=2, backoff_seconds=3600))
            redrive.register_graph(graph)
            with app.clock.frozen():
                handle = await app.start(graph.call({"order": "o1"}))
                await app.until(lambda: RAN == ["mail o1"])
                await app.until(lambda: app.witness.commits >= 2)
                await app.reset_step(handle.id, "mail", by="ann", why="it is back")
                await app.until(lambda: len(RAN) == 2)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    # Attempt 2 was the first of the new allowance, and 3 its last.
    assert (outcome.status, len(RAN)) == ("failed", 3)


def events(outcome: FlowOutcome, kind: type[Any]) -> list[Any]:
    return [line.event for line in outcome.lines if isinstance(line.event, kind)]


@pytest.mark.promise("A10")
def test_the_steps_of_a_flow_say_what_each_compensates_and_give_a_reason_only_where_there_is_one() -> None:
    compensated: dict[str, list[str | None]] = {}
    reasons: dict[str, str | None] = {}

    async def look(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        for step in await app.steps_of(handle.id):
            compensated[step.name] = [item.compensates for item in step.items]
            reasons[step.name] = step.why
        return await app.outcome(handle)

    BROKEN.add("ship r-o1 p-o1")
    run(order_graph(), ORDER, after=look)
    assert compensated == {
        "reserve": [None],
        "charge": [None],
        "ship": [None],
        "mail": [None],
        "release": ["reserve"],
        "refund": ["charge"],
    }
    assert reasons["mail"] is None
    assert reasons["ship"] == "Permanent: ship r-o1 p-o1 is broken"


def test_a_flow_whose_work_was_undone_is_not_redriven() -> None:
    async def again(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        with pytest.raises(redrive.errors.InvalidStateError, match="were compensated"):
            await app.redrive(handle.id, by="ann", why="mended")
        with pytest.raises(redrive.errors.InvalidStateError, match="were compensated"):
            await app.reset_step(handle.id, "ship", by="ann", why="mended")
        [letter] = await app.dead_letters()
        assert letter.kind == "compensated"
        assert letter.payload.startswith('{"order":')
        return await app.outcome(handle)

    BROKEN.add("ship r-o1 p-o1")
    assert run(order_graph(), ORDER, after=again).status == "failed"


def undone(outcome: FlowOutcome) -> list[str]:
    return [one for one in RAN if one.startswith(("refund", "release"))]


@pytest.mark.promise("X6")
@pytest.mark.parametrize("broken", [{"refund p-o1"}, {"release r-o1"}, {"refund p-o1", "release r-o1"}])
def test_a_failed_compensation_is_redriven_and_nothing_is_compensated_twice(broken: set[str]) -> None:
    async def again(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        [letter] = await app.dead_letters()
        assert letter.state == "dead"
        told = await app.explain(handle.id)
        assert "could not be compensated" in told.headline
        assert told.next_steps[0].command == f"redrive dead redrive {handle.id} --why WHY"
        BROKEN.difference_update(broken)
        assert await app.redrive(handle.id, by="ann", why="it is up again") == [handle.id]
        outcome = await app.outcome(handle)
        with pytest.raises(redrive.errors.InvalidStateError, match="were compensated"):
            await app.redrive(handle.id, by="ann", why="again")
        assert "could not be compensated" not in (await app.explain(handle.id)).headline
        return outcome

    BROKEN.update({"ship r-o1 p-o1", *broken})
    outcome = run(order_graph(), ORDER, after=again)
    assert outcome.status == "failed"
    assert sorted(undone(outcome)) == sorted(["refund p-o1", "release r-o1", *broken])
    settled = {line.event.step: line.event.state for line in outcome.lines if isinstance(line.event, StepSettled)}
    assert (settled["charge"], settled["reserve"]) == ("compensated", "compensated")


@pytest.mark.promise("X6")
def test_a_compensation_that_fails_again_is_a_dead_letter_again() -> None:
    async def twice(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        await app.redrive(handle.id, by="ann", why="hope")
        await app.outcome(handle)
        assert [letter.flow_id for letter in await app.dead_letters()] == [handle.id]
        BROKEN.discard("refund p-o1")
        await app.redrive(handle.id, by="ann", why="mended")
        return await app.outcome(handle)

    BROKEN.update({"ship r-o1 p-o1", "refund p-o1"})
    outcome = run(order_graph(), ORDER, after=twice)
    assert undone(outcome).count("refund p-o1") == 3
    assert undone(outcome).count("release r-o1") == 1


@pytest.mark.promise("X6")
@pytest.mark.parametrize("how", ["complete", "resolve", "reset"])
def test_a_failed_compensation_is_settled_by_hand(how: str) -> None:
    async def settle(app: FlowApp, handle: redrive.Handle[Any]) -> FlowOutcome:
        signed: Any = {"by": "ann", "why": "done at the bank's desk"}
        with pytest.raises(redrive.errors.InvalidStateError, match=r"resolve the compensation \(refund\)"):
            await app.reset_step(handle.id, "ship", **signed)
        if how == "complete":
            await app.complete_step(handle.id, "refund", None, **signed)
        elif how == "resolve":
            await app.resolve_step(handle.id, "refund", **signed)
        else:
            BROKEN.discard("refund p-o1")
            await app.reset_step(handle.id, "refund", **signed)
        outcome = await app.outcome(handle)
        [step] = [step for step in await app.steps_of(handle.id) if step.name == "charge"]
        assert step.state == "compensated"
        return outcome

    BROKEN.update({"ship r-o1 p-o1", "refund p-o1"})
    outcome = run(order_graph(), ORDER, after=settle)
    assert undone(outcome).count("refund p-o1") == (2 if how == "reset" else 1)
    assert undone(outcome).count("release r-o1") == 1


@pytest.mark.promise("X6", "A14")
def test_a_crash_at_any_commit_of_a_redriven_compensation_changes_nothing() -> None:
    async def story(app: FlowApp) -> FlowOutcome:
        RAN.clear()
        BROKEN.clear()
        BROKEN.update({"ship r-o1 p-o1", "refund p-o1"})
        handle = await app.start(order_graph().call(ORDER))
        await app.outcome(handle)
        BROKEN.discard("refund p-o1")
        await app.redrive(handle.id, by="ann", why="mended")
        return await app.outcome(handle)

    for commit in range(1, 14):
        for side in ("before", "after"):

            async def crashed(commit: int = commit, side: Any = side) -> FlowOutcome:
                async with flow_app() as app:
                    app.crash_at(commit, side)
                    return await story(app)

            outcome = asyncio.run(crashed())
            settled = {
                line.event.step: line.event.state for line in outcome.lines if isinstance(line.event, StepSettled)
            }
            assert (settled["charge"], settled["reserve"]) == ("compensated", "compensated"), (commit, side, outcome)


def test_a_step_is_not_reset_while_what_had_succeeded_is_being_undone() -> None:
    BROKEN.add("ship r-o1 p-o1")
    FLAKY.update({"refund p-o1": 1, "release r-o1": 1})

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(order_graph().call(ORDER))
                await app.until(lambda: bool({"refund p-o1", "release r-o1"} & set(RAN)))
                with pytest.raises(redrive.errors.InvalidStateError, match="being or were compensated"):
                    await app.reset_step(handle.id, "ship", by="ann", why="too late")
            return await app.outcome(handle)

    assert asyncio.run(story()).status == "failed"
    assert RAN.count("ship r-o1 p-o1") == 1


# Crashes


async def live(graph: Graph, inputs: dict[str, Any], crash: tuple[int, Any] | None, again: bool = False) -> FlowOutcome:
    async with flow_app(same_ids=True) as app:
        redrive.register_graph(graph)
        if crash is not None and not again:
            app.crash_at(*crash)
        handle = await app.start(graph.call(inputs))
        outcome = await app.outcome(handle)
        if outcome.status == "failed" and again:
            BROKEN.clear()
            if crash is not None:
                app.crash_at(*crash)
            await app.redrive(handle.id, by="ann", why="mended")
            outcome = await app.outcome(handle)
        assert await app.retries() == []
        return outcome


CRASHES = [(commit, side) for commit in range(1, 13) for side in ("before", "after")]


def done_twice(outcome: FlowOutcome) -> list[int]:
    done = [one.item for one in events(outcome, ItemCompleted)]
    return sorted({item for item in done if done.count(item) > 1})


@pytest.mark.promise("A14")
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_at_any_commit_changes_no_outcome(crash: tuple[int, Any]) -> None:
    FLAKY.update({"charge o1 5": 1, "reserve o1": 1})
    outcome = asyncio.run(live(order_graph(), ORDER, crash))
    assert (outcome.status, outcome.result) == ("completed", {"parcel": "r-o1+p-o1"})
    assert done_twice(outcome) == []
    FLAKY.update({"pack 1": 2, "pack 4": 1})
    outcome = asyncio.run(live(packing(parallelism=2, attempts=5), {"lines": list(range(6))}, crash))
    assert outcome.result == {"boxes": [0, 10, 20, 30, 40, 50]}
    assert done_twice(outcome) == []


@pytest.mark.promise("A14")
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_at_any_commit_of_a_flow_that_fails_changes_nothing_either(crash: tuple[int, Any]) -> None:
    BROKEN.add("ship r-o1 p-o1")
    outcome = asyncio.run(live(order_graph(), ORDER, crash))
    assert outcome.status == "failed"
    assert {"refund p-o1", "release r-o1"} <= set(RAN)
    FLAKY["pack 0"] = 99
    BROKEN.add("pack 2")
    outcome = asyncio.run(live(packing(parallelism=2, attempts=5), {"lines": list(range(6))}, crash))
    assert outcome.status == "failed"


@pytest.mark.promise("A14", "T10")
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_at_any_commit_after_a_redrive(crash: tuple[int, Any]) -> None:
    BROKEN.update({"reserve o1", "charge o1 5"})
    outcome = asyncio.run(live(no_undo(), ORDER, crash, again=True))
    assert outcome.status == "completed"
    starts = [(one.item, one.attempt) for one in events(outcome, AttemptStarted)]
    # Each attempt has a number of its own, lost ones included.
    assert len(starts) == len(set(starts))
    assert all(attempt > 1 for _, attempt in starts)
    FLAKY["pack 0"] = 3
    BROKEN.add("pack 1")
    outcome = asyncio.run(live(packing(parallelism=1, attempts=5), {"lines": [0, 1, 2, 3]}, crash, again=True))
    assert outcome.result == {"boxes": [0, 10, 20, 30]}


def test_a_completion_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidOutcomeError, match="nested deeper than the 500 levels"):
        read_outcome(b"[" * 600 + b"]" * 600, "application/json", 0.0)
