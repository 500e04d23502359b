"""Asynchronous HTTP steps: accepted now, completed later by whoever holds the token of the attempt."""

import asyncio
import json
import random
import time
from typing import Any

import pytest
from tests.end_to_end.scene import Call, Ended, Handlers, called, ended, logged, open_app, run, start, start_step

from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.errors import InvalidOutcomeError
from redrive.explain.explanation import explain_text
from redrive.flows.events import (
    AttemptAccepted,
    AttemptFailed,
    CompletionRefused,
    FlowFailed,
    ItemCompleted,
    ItemStarted,
)
from redrive.policies.decision import GiveUp, RetryAt

ROUNDS = 20
DONE = b'{"success": true, "outputs": {"parcel": "p1"}}'
RESULT = {"parcel": "p1"}
ONE_RETRY = {"max_retries": 1, "backoff": 10}


async def accepted(app: App, handlers: Handlers, how: str = "accept", **step: Any) -> tuple[Handle[Any], Call]:
    """A flow whose handler has taken the work, and the call that it got."""
    settings = {"mode": "async", "timeout": "20s", "outputs": {"parcel": "string"}, "work_config": ONE_RETRY, **step}
    handle = await start_step(app, handlers.at(how), **settings)
    await logged(app, handle.id, AttemptAccepted)
    call, *_ = await called(handlers, handle.id)  # where the time limit is short, the next attempt may be there already
    return handle, call


@pytest.mark.promise("A16")
def test_work_is_accepted_and_completed_later_once(address: str, handlers: Handlers) -> None:
    async def story() -> tuple[Ended, list[str], list[str]]:
        async with open_app(address) as app:
            handle, call = await accepted(app, handlers)
            flow_id, item, delivery = call.token.split(".")
            guesses = [f"{flow_id}.{item}.{delivery[::-1]}", f"{flow_id}.2.{delivery}", "nobody.1.x", "", "a.b.c"]
            unknown: list[str] = [await app.report_outcome(guess, DONE) for guess in guesses]
            answers: list[str] = [await app.report_outcome(call.token, DONE)]
            flow = await ended(app, handlers, handle)
            answers += [
                await app.report_outcome(call.token, DONE),
                await app.report_outcome(call.token, b'{"success": false}'),
            ]
            assert await app.read_lines(handle.id) == flow.lines
            return flow, answers, unknown

    flow, answers, unknown = run(story())
    assert answers == ["accepted", "duplicate", "stale"]
    assert set(unknown) == {"unknown"}
    assert flow.result == RESULT
    assert flow.words == ["ItemStarted", "AttemptAccepted", "ItemCompleted", "FlowCompleted"]
    assert len(flow.calls) == 1


@pytest.mark.promise("A16", "A4", "A3")
def test_a_callback_may_tell_of_a_failure(address: str, handlers: Handlers) -> None:
    async def story() -> tuple[Ended, Ended]:
        async with open_app(address) as app:
            handle, call = await accepted(app, handlers)
            await app.report_outcome(call.token, b'{"success": false, "error": "the card was declined"}')
            for_good = await ended(app, handlers, handle)
            handle, call = await accepted(app, handlers)
            problem = {"status": 503, "title": "Down for now"}
            await app.report_outcome(call.token, json.dumps(problem).encode(), "application/problem+json")
            calls = await called(handlers, handle.id, 2)
            await logged(app, handle.id, AttemptAccepted, 2)
            assert await app.report_outcome(calls[1].token, DONE) == "accepted"
            return for_good, await ended(app, handlers, handle)

    for_good, for_now = run(story())
    assert for_good.status == "failed"
    [(_, failure)] = for_good.failures()
    assert isinstance(failure.decision, GiveUp)
    assert "the card was declined" in failure.error.message
    assert for_now.status == "completed"
    [(_, failure)] = for_now.failures()
    assert (failure.failure.category, failure.failure.status) == ("transient", 503)
    assert len({call.receipt for call in for_now.calls}) == 1


@pytest.mark.promise("X10")
def test_a_stale_token_writes_one_line_however_often_it_is_sent(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            handle, first = await accepted(app, handlers)
            away = json.dumps({"status": 503, "title": "Down for now"}).encode()
            assert await app.report_outcome(first.token, away, "application/problem+json") == "accepted"
            _, second = await called(handlers, handle.id, 2)
            await logged(app, handle.id, AttemptAccepted, 2)
            for _ in range(3):
                told = await asyncio.gather(*(app.report_outcome(first.token, DONE) for _ in range(20)))
                assert told == ["stale"] * 20
                await logged(app, handle.id, CompletionRefused)
            assert await app.report_outcome(second.token, DONE) == "accepted"
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.result == RESULT
    assert len(flow.events(CompletionRefused)) == 1


@pytest.mark.promise("A16", "A9", "A12")
def test_no_callback_in_time_is_a_timeout_and_the_old_token_is_refused(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            handle, first = await accepted(app, handlers, timeout="900ms")
            _, second = await called(handlers, handle.id, 2)
            await logged(app, handle.id, AttemptAccepted, 2)
            assert await app.report_outcome(first.token, DONE) == "stale"
            await logged(app, handle.id, CompletionRefused)
            told = explain_text(await app.explain(handle.id))
            assert "a late outcome for item 1 was refused" in told
            assert told.count("the attempt is not running any more") == 1
            assert await app.report_outcome(second.token, DONE) == "accepted"
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.result == RESULT
    [(failed_at, failure)] = flow.failures()
    [began] = flow.events(ItemStarted)
    assert failure.failure.kind == "timeout"
    assert failure.error.message == "the attempt took longer than its 0.9 s"
    assert began.timeout_at is not None
    assert failed_at >= began.timeout_at
    assert isinstance(failure.decision, RetryAt)
    [(started_at, _)] = flow.starts()
    assert started_at >= failure.decision.when - 1e-5
    [done] = flow.events(ItemCompleted)
    assert done.attempt == 2
    first, second = flow.calls
    assert first.receipt == second.receipt
    assert first.delivery != second.delivery


@pytest.mark.promise("A16")
def test_nobody_ever_calls_back(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            handle, _ = await accepted(app, handlers, timeout="50ms")
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.status == "failed"
    assert [failure.failure.kind for _, failure in flow.failures()] == ["timeout", "timeout"]
    [end] = flow.events(FlowFailed)
    assert end.kind == "exhausted"


@pytest.mark.promise("A16")
def test_a_completion_that_is_there_before_the_timeout_wins(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            handle, call = await accepted(app, handlers, timeout="1s")
        # Nobody works when it comes, nor when the time is over.
        async with open_app(address, worker=False) as outside:
            assert await outside.report_outcome(call.token, DONE) == "accepted"
            [began] = [line.event for line in await outside.log(handle.id) if isinstance(line.event, ItemStarted)]
        assert began.timeout_at is not None
        await asyncio.sleep(max(0.0, began.timeout_at - time.time()) + 0.01)
        async with open_app(address) as app:
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.result == RESULT
    assert flow.words == ["ItemStarted", "AttemptAccepted", "ItemCompleted", "FlowCompleted"]


@pytest.mark.promise("A16")
def test_callbacks_just_at_the_timeout_end_each_attempt_once(address: str, handlers: Handlers) -> None:
    chance = random.Random(5)

    async def one(app: App) -> tuple[str, Ended]:
        handle, call = await accepted(app, handlers, timeout="400ms", work_config={"max_retries": 0})
        [began] = await logged(app, handle.id, ItemStarted)
        assert began.timeout_at is not None
        await asyncio.sleep(began.timeout_at + chance.uniform(-0.03, 0.01) - time.time())
        answer = await app.report_outcome(call.token, DONE)
        return answer, await ended(app, handlers, handle)

    async def story() -> list[tuple[str, Ended]]:
        async with open_app(address) as app:
            return await asyncio.gather(*(one(app) for _ in range(ROUNDS)))

    for answer, flow in run(story()):
        completed, failed = flow.events(ItemCompleted), flow.events(AttemptFailed)
        assert len(completed) + len(failed) == 1
        assert flow.status == ("completed" if completed else "failed")
        assert (answer in ("accepted", "duplicate")) == bool(completed)


@pytest.mark.promise("A16")
def test_a_callback_may_come_before_the_answer_that_accepts_the_work(address: str, handlers: Handlers) -> None:
    async def story() -> tuple[Ended, Ended]:
        async with open_app(address) as app:
            step = {"mode": "async", "timeout": "20s", "outputs": {"parcel": "string"}}
            handle = await start_step(app, handlers.at("accept", hold=f"early {address}"), **step)
            [call] = await called(handlers, handle.id)
            assert await app.report_outcome(call.token, DONE) == "accepted"
            early = await ended(app, handlers, handle)
            handlers.release("early")
            # Or the answer is the outcome already.
            return early, await ended(
                app, handlers, await start_step(app, handlers.at("ok", outputs=DONE.decode()), **step)
            )

    early, at_once = run(story())
    assert early.words == ["ItemStarted", "ItemCompleted", "FlowCompleted"]
    assert at_once.words == ["ItemStarted", "AttemptClosed", "ItemCompleted", "FlowCompleted"]
    assert early.result == at_once.result == RESULT


@pytest.mark.promise("A16")
def test_a_completion_that_does_not_fit_is_refused_and_the_attempt_goes_on(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            handle, call = await accepted(app, handlers)
            for body in (b'{"parcel": 7}', b"{not json", b'{"success": true, "outputs": {"parcel": []}}'):
                with pytest.raises(InvalidOutcomeError):
                    await app.report_outcome(call.token, body)
            await app.report_outcome(call.token, DONE)
            return await ended(app, handlers, handle)

    assert run(story()).words == ["ItemStarted", "AttemptAccepted", "ItemCompleted", "FlowCompleted"]


@pytest.mark.promise("A15", "A16")
def test_accepted_work_keeps_its_place(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            line = {"type": "integer", "for_each": True, "from": "lines"}
            step = {"endpoint": handlers.at("accept"), "mode": "async", "timeout": "20s", "parallelism": 2}
            graph = {"steps": {"pack": {**step, "inputs": {"line": line}, "outputs": {"boxes": "integer"}}}}
            handle = await start(app, graph, {"lines": [1, 2, 3, 4, 5]})
            for count in range(2, 6):
                calls = await called(handlers, handle.id, count)
                await logged(app, handle.id, AttemptAccepted, count)
                assert len(calls) == len(handlers.calls(handle.id)) == count
                call = calls[count - 2]
                await app.report_outcome(call.token, json.dumps(call.body["line"] * 10).encode())
            await app.report_outcome((await called(handlers, handle.id, 5))[4].token, b"50")
            return await ended(app, handlers, handle)

    assert run(story()).result == {"boxes": [10, 20, 30, 40, 50]}
