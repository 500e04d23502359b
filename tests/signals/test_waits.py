"""What a workflow waits for: conditions and its mailbox, with timeouts that are durable timers."""

import asyncio
from typing import Any

import pytest
from tests.signals.approvals import Mail, Order, ship

import redrive
from redrive import Workflow, workflow
from redrive.explain.explanation import explain_text
from redrive.testing import FlowOutcome, flow_app, run_flow

pytestmark = pytest.mark.promise("E1")
DAY = 86_400.0


def test_an_approval_is_awaited_for_thirty_days_and_comes_on_the_last(address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Order.call("o-17"))
                await app.settled(handle)
                app.clock.advance(30 * DAY - 1)
                await handle.signal("approved", approval={"by": "ann"})
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "o-17 shipped for ann; notes: "
    assert outcome.duration == 30 * DAY - 1


def test_an_approval_that_never_comes_times_out() -> None:
    outcome = run_flow(Order.call("o-17"))
    assert outcome.duration == 30 * DAY
    assert outcome.result.startswith("o-17 expired: the condition at approvals.py:")
    assert outcome.result.endswith(" was not true within 30d")


def test_a_letter_that_never_comes_times_out_and_says_which() -> None:
    @workflow(name="waits.Impatient")
    class Impatient(Workflow):
        async def run(self) -> str:
            try:
                await workflow.receive("letter", timeout="2h")
            except TimeoutError as error:
                return str(error)
            return ""

    assert run_flow(Impatient.call()).result == "no signal 'letter' came within 2h"


def test_asyncio_timeouts_and_cancellation_work_on_waits_and_lose_no_signal() -> None:
    @workflow(name="waits.Cut")
    class Cut(Workflow):
        async def run(self) -> list[Any]:
            try:
                async with asyncio.timeout(60):
                    await workflow.receive("letter")
            except TimeoutError:
                pass
            task = asyncio.create_task(workflow.receive("letter"))
            await asyncio.sleep(1)
            task.cancel()
            return [await workflow.receive("letter")]

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Cut.call())
                await app.settled(handle)
                app.clock.advance(100)
                await app.settled(handle)
                app.clock.advance(100)
                await app.settled(handle)
                await handle.signal("letter", n=1)
                return await app.outcome(handle)

    assert asyncio.run(story()).result == [{"n": 1}]


def test_one_waiter_at_a_time_goes_on_while_the_condition_still_holds() -> None:
    @workflow(name="waits.Permits")
    class Permits(Workflow):
        def __init__(self) -> None:
            self.free = 0
            self.order: list[str] = []

        @redrive.signal
        def add(self, count: int) -> None:
            self.free += count

        async def take(self, name: str) -> None:
            await workflow.wait_for(lambda: self.free > 0)
            assert self.free > 0
            self.free -= 1
            self.order.append(name)

        async def run(self) -> list[str]:
            await asyncio.gather(*(self.take(name) for name in "abcd"))
            return self.order

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Permits.call())
                for count in (1, 2, 1):
                    await handle.signal("add", count=count)
                    await app.settled(handle)
                return await app.outcome(handle)

    assert asyncio.run(story()).result == ["a", "b", "c", "d"]


def test_what_a_condition_raises_is_raised_where_it_is_awaited() -> None:
    @workflow(name="waits.Raises")
    class Raises(Workflow):
        async def run(self) -> str:
            calls = [0]

            def later() -> bool:
                calls[0] += 1
                if calls[0] > 1:
                    raise KeyError("gone")
                return False

            try:
                await workflow.wait_for(later)
            except KeyError as error:
                return str(error)
            return ""

    assert run_flow(Raises.call()).result == "'gone'"


def test_a_condition_that_would_have_to_be_awaited_is_refused() -> None:
    @workflow(name="waits.Async")
    class Async(Workflow):
        async def run(self) -> str:
            async def never() -> bool:
                return True

            await workflow.wait_for(never)
            return ""

    assert "wait_for needs a plain function" in str(run_flow(Async.call()).error)


def test_a_condition_that_actions_make_true_needs_no_signal() -> None:
    @workflow(name="waits.Acts")
    class Acts(Workflow):
        async def run(self) -> list[str]:
            done: list[str] = []

            async def one() -> None:
                done.append(await ship("a", "b"))

            task = asyncio.create_task(one())
            await workflow.wait_for(lambda: done)
            await task
            return done

    assert run_flow(Acts.call()).result == ["a shipped for b"]


def test_receive_refuses_a_signal_that_has_a_handler_and_a_bad_name() -> None:
    @workflow(name="waits.Handled")
    class Handled(Workflow):
        @redrive.signal
        def go(self) -> None: ...

        async def run(self, name: Any) -> None:
            await workflow.receive(name)

    assert "the @signal method of that name takes it" in str(run_flow(Handled.call("go")).error)
    assert "1 to 200 characters" in str(run_flow(Handled.call("")).error)
    assert "must be a string, not int" in str(run_flow(Handled.call(1)).error)


def test_waits_outside_of_a_workflow_are_refused() -> None:
    with pytest.raises(RuntimeError, match="works only inside the run method"):
        asyncio.run(workflow.receive("go"))
    with pytest.raises(RuntimeError, match="works only inside the run method"):
        asyncio.run(workflow.wait_for(lambda: True))


def test_explain_says_what_a_flow_waits_for_until_when_and_how_to_send_it() -> None:
    async def story() -> tuple[str, str, str]:
        async with flow_app() as app:
            with app.clock.frozen():
                order, mail = await app.start(Order.call("o-17")), await app.start(Mail.call())
                await app.settled(order)
                await app.settled(mail)
                before = explain_text(await app.explain(order.id)), explain_text(await app.explain(mail.id))
                await mail.signal("letter", n="stop")
                await app.outcome(mail)
                return *before, explain_text(await app.explain(mail.id))

    order, mail, ended = asyncio.run(story())
    assert "waiting for the condition at approvals.py:" in order
    assert ", which signal 'approved' or 'note' may make true, until 2030-01-31 00:00:00 UTC, in 30d" in order
    assert "timer 1 at" not in order
    assert "waiting for the signal 'letter'\n" in mail
    assert " letter NAME=VALUE" in mail
    assert 'signal letter(n="stop") was received' in ended
    assert "Waits for" not in ended


def test_explain_hides_the_arguments_of_signals_from_those_who_may_not_see_them() -> None:
    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                mail = await app.start(Mail.call(), delay="1h")
                await mail.signal("letter", n="secret-17")
                await app.settled(mail)
                return explain_text(await app.explain(mail.id, payloads=False))

    text = asyncio.run(story())
    assert "signal letter(redacted (17 bytes)) came, and is kept until the flow goes on" in text
    assert "secret-17" not in text
