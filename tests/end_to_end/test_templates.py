"""Templates with `retry:` through the engine: how often, how far apart, the boundary cases, and cancellation."""

import asyncio
import itertools
import sqlite3
from datetime import datetime
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.end_to_end.scene import Ended, Handlers, ended, logged, open_app, run, start

import redrive
from redrive.client.app import App
from redrive.client.flow_inputs import FlowInput
from redrive.client.step_views import ItemView
from redrive.flows.events import AttemptFailed, FlowFailed
from redrive.policies.decision import GiveUp, RetryAt

_names = (f"template_{number}" for number in itertools.count(1))


def template(endpoint: str, retry: str, more: str = "") -> str:
    return f"""
template: {next(_names)}
steps:
  charge:
    endpoint: {endpoint}
    retry: {{{retry}}}
    {more}
"""


def flow_of(address: str, handlers: Handlers, retry: str, how: str = "500", **told: object) -> Ended:
    [flow] = flows_of(address, handlers, (how, retry), **told)
    return flow


def flows_of(address: str, handlers: Handlers, *cases: tuple[str, str], **told: object) -> list[Ended]:
    """A flow for each of these: how its handler fails, and what its template says."""

    async def scene() -> list[Ended]:
        async with open_app(address) as app:
            handles = [await start(app, template(handlers.at(how, **told), retry)) for how, retry in cases]
            return await asyncio.gather(*(ended(app, handlers, handle) for handle in handles))

    return run(scene())


def waits(flow: Ended) -> list[float]:
    return [
        round(failure.decision.because.wait * 1000, 6)
        for _, failure in flow.failures()
        if isinstance(failure.decision, RetryAt)
    ]


@pytest.mark.promise("T1", "T3", "A7")
def test_all_that_a_template_says_about_retries_takes_effect(address: str, handlers: Handlers) -> None:
    once, three, linear, capped, constant, none = flows_of(
        address,
        handlers,
        ("500", "max_attempts: 1"),
        ("500", "max_attempts: 3, backoff_base_ms: 20"),
        ("500", "max_attempts: 4, backoff: linear, backoff_base_ms: 10"),
        ("500", "max_attempts: 5, backoff: exponential, backoff_base_ms: 10, max_backoff_ms: 25"),
        ("500", "max_attempts: 4, backoff: constant, backoff_base_ms: 15"),
        ("500", "backoff_base_ms: 5"),
    )
    assert [len(flow.calls) for flow in (once, three, linear, capped, constant, none)] == [1, 3, 4, 5, 4, 3]
    assert waits(once) == []
    assert waits(three) == [20, 40]
    assert waits(linear) == [10, 20, 30]
    assert waits(capped) == [10, 20, 25, 25]
    assert waits(constant) == [15, 15, 15]
    assert waits(none) == [5, 10]
    for flow in (once, three, linear, capped, constant, none):
        [end] = flow.events(FlowFailed)
        assert end.kind == "exhausted"


@pytest.mark.promise("T3")
def test_a_template_that_says_nothing_has_the_defaults(address: str, handlers: Handlers) -> None:
    async def story() -> ItemView:
        async with open_app(address) as app:
            handle = await start(app, template(handlers.at("500"), ""))
            [failed] = await logged(app, handle.id, AttemptFailed)
            assert isinstance(failed.decision, RetryAt)
            assert failed.decision.because.wait == 1.0
            view = await item_of(app, handle.id)
            await handle.cancel()
            await ended(app, handlers, handle)
            return view

    view = run(story())
    assert (view.max_attempts, view.attempts, view.retry_eligible) == (3, 1, True)


@pytest.mark.promise("T6", "T9")
@pytest.mark.parametrize(
    ("retry", "says"),
    [
        ("max_attempts: 0", ("max_attempts", "1")),
        ("retry_limit: 3", ("retry_limit", "max_attempts")),
        ("max_attempts: -1", ("max_attempts",)),
        ("max_attempt: 3", ("max_attempt", "max_attempts")),
        ("backoff: sometimes", ("backoff", "exponential")),
        ("backoff_base_ms: soon", ("backoff_base_ms",)),
    ],
)
def test_what_a_template_cannot_mean_is_refused_at_load(retry: str, says: tuple[str, ...]) -> None:
    with pytest.raises(redrive.errors.GraphError) as refused:
        redrive.read_graph(template("http://127.0.0.1:9/charge", retry), "charge.yaml")
    text = str(refused.value)
    assert "charge.yaml" in text
    assert "steps.charge.retry" in text
    for word in says:
        assert word in text


# The boundary cases, through the engine


@pytest.mark.promise("T5", "T6")
def test_max_attempts_zero_allows_first_execution(address: str, handlers: Handlers) -> None:
    flow = stored_zero(address, handlers, "ok")
    assert (flow.status, len(flow.calls)) == ("completed", 1)


@pytest.mark.promise("T5", "T6")
def test_max_attempts_zero_blocks_after_first(address: str, handlers: Handlers) -> None:
    flow = stored_zero(address, handlers, "500")
    assert (flow.status, len(flow.calls)) == ("failed", 1)
    [end] = flow.events(FlowFailed)
    assert end.kind == "exhausted"


def stored_zero(address: str, handlers: Handlers, how: str) -> Ended:
    """No file can say 0, so it comes from the store: the input of a flow that something else wrote."""

    async def story() -> Ended:
        async with open_app(address) as app:
            graph = redrive.read_graph(template(handlers.at(how), "max_attempts: 3, backoff_base_ms: 5"))
            redrive.register_graph(graph)
            later = await app.start(graph.call(), delay=3600)
            text = (await app.find(later.id)).input
            assert '"attempts":3' in text
            handle = await app._start(FlowInput(f"graph:{graph.name}", text.replace('"attempts":3', '"attempts":0')))
            flow = await ended(app, handlers, handle)
            await later.cancel()
            await ended(app, handlers, later)
            return flow

    return run(story())


@pytest.mark.promise("T5", "T1")
def test_max_attempts_one_semantics(address: str, handlers: Handlers) -> None:
    failed, done = flows_of(address, handlers, ("500", "max_attempts: 1"), ("ok", "max_attempts: 1"))
    assert (failed.status, len(failed.calls)) == ("failed", 1)
    assert (done.status, len(done.calls)) == ("completed", 1)


@pytest.mark.promise("T5", "T1")
def test_max_attempts_three_progression(address: str, handlers: Handlers) -> None:
    for failures, status in ((0, "completed"), (1, "completed"), (2, "completed"), (3, "failed")):
        flow = flow_of(address, handlers, "max_attempts: 3, backoff_base_ms: 5", times=failures)
        assert (flow.status, len(flow.calls)) == (status, min(failures + 1, 3))


@pytest.mark.promise("T5", "T2")
def test_first_attempt_ignores_retryable_flag(address: str, handlers: Handlers) -> None:
    flow = flow_of(address, handlers, "retryable: false", "ok")
    assert (flow.status, len(flow.calls)) == ("completed", 1)


@pytest.mark.promise("T5", "T2")
def test_retries_require_retryable_true(address: str, handlers: Handlers) -> None:
    never, again = flows_of(
        address,
        handlers,
        ("500", "retryable: false, max_attempts: 3, backoff_base_ms: 5"),
        ("500", "retryable: true, max_attempts: 3, backoff_base_ms: 5"),
        times=1,
    )
    assert (never.status, len(never.calls)) == ("failed", 1)
    assert (again.status, len(again.calls)) == ("completed", 2)


@pytest.mark.promise("T7")
def test_what_is_not_retryable_fails_at_once_and_never_waits(address: str, handlers: Handlers) -> None:
    flow = flow_of(address, handlers, "retryable: false, max_attempts: 3")
    assert flow.words == ["ItemStarted", "AttemptFailed", "StepSettled", "FlowFailed"]
    [(failed_at, failure)] = flow.failures()
    assert isinstance(failure.decision, GiveUp)
    # In the same breath.
    assert {line.at for line in flow.lines[1:]} == {failed_at}


# Eligibility


async def item_of(app: App, flow_id: str) -> ItemView:
    [step] = await app.steps_of(flow_id)
    [item] = step.items
    return item


def by_sql(address: str, flow_id: str) -> dict[str, Any]:
    """What the view says, asked past redrive."""
    if address.startswith("sqlite"):
        connection = sqlite3.connect(address.removeprefix("sqlite:///"))
        try:
            connection.row_factory = sqlite3.Row
            [row] = connection.execute("SELECT * FROM retry_eligibility WHERE flow_id = ?", (flow_id,)).fetchall()
        finally:
            connection.close()
        return dict(row)
    with psycopg.connect(address, row_factory=dict_row) as connection_:
        query = "SELECT * FROM redrive.retry_eligibility WHERE flow_id::text = %s"
        [found] = connection_.execute(query, (flow_id,)).fetchall()
        return dict(found)


def seconds(moment: Any) -> float:
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)


@pytest.mark.promise("T4")
@pytest.mark.parametrize("retry", ["max_attempts: 3", "max_attempts: 2147483647", "max_attempts: 2"])
def test_python_and_sql_say_the_same_of_flows_that_wait(address: str, handlers: Handlers, retry: str) -> None:
    async def story() -> tuple[ItemView, dict[str, Any]]:
        async with open_app(address) as app:
            handle = await start(app, template(handlers.at("503"), f"{retry}, backoff_base_ms: 30000"))
            await logged(app, handle.id, AttemptFailed)
            answers = await item_of(app, handle.id), by_sql(address, handle.id)
            await handle.cancel()
            await ended(app, handlers, handle)
            return answers

    item, row = run(story())
    assert (item.state, item.attempts, item.retry_eligible, item.ready) == ("waiting", 1, True, False)
    assert item.reason == "waits for its time"
    for name in ("attempts", "max_attempts", "retry_eligible", "ready", "reason"):
        assert row[name] == getattr(item, name)
    assert item.next_retry_at is not None
    assert seconds(row["next_retry_at"]) == pytest.approx(item.next_retry_at, abs=1e-5)
    assert (bool(row["retryable"]), bool(row["dependencies_satisfied"])) == (True, True)


@pytest.mark.promise("T8")
def test_practically_unlimited_retries_stop_at_once_when_cancelled(address: str, handlers: Handlers) -> None:
    async def story() -> list[Ended]:
        async with open_app(address) as app:
            hot = "max_attempts: 999999, backoff: constant, backoff_base_ms: 1"
            slow = "max_attempts: 999999, backoff: constant, backoff_base_ms: 3600000, max_backoff_ms: 3600000"
            handles = [await start(app, template(handlers.at("500"), retry)) for retry in (hot, slow)]
            await logged(app, handles[0].id, AttemptFailed, 5)
            await logged(app, handles[1].id, AttemptFailed)
            for handle in handles:
                await handle.cancel(by="ann", why="enough")
            flows = [await ended(app, handlers, handle) for handle in handles]
            # It is over for good: no call comes after the end.
            assert [len(handlers.calls(flow.id)) for flow in flows] == [len(flow.calls) for flow in flows]
            assert [row for row in await app.retries() if row.flow_id in {flow.id for flow in flows}] == []
            return flows

    for flow in run(story()):
        assert flow.status == "cancelled"
        assert flow.words[-2:] == ["CancelRequested", "FlowCancelled"]
        begun = 1 + len(flow.starts())
        assert len(flow.calls) <= begun
        assert flow.lines[-1].at - flow.lines[-2].at < 1


@pytest.mark.promise("T3")
def test_the_overrides_of_an_environment_take_effect(address: str, handlers: Handlers) -> None:
    text = template(handlers.at("500"), "max_attempts: 2, backoff_base_ms: 5") + (
        "environments: {production: {steps: {charge: {retry: {max_attempts: 4, backoff_base_ms: 5}}}}}\n"
    )

    async def story() -> list[int]:
        async with open_app(address) as app:
            calls = []
            for environment in (None, "production"):
                graph = redrive.read_graph(text, environment=environment)
                redrive.register_graph(graph)
                calls.append(len((await ended(app, handlers, await app.start(graph.call()))).calls))
            return calls

    assert run(story()) == [2, 4]
