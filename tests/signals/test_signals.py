"""Signals reach a flow once and in order, whenever they were sent, and are refused once it has ended."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw
from tests.signals.approvals import BROKEN, Approval, Mail, Order, Steps, ship

import redrive
from redrive import Workflow, workflow
from redrive.client.handle import Handle
from redrive.errors import CommitUnknownError, FlowFinishedError, FlowNotFoundError, SerializationError
from redrive.explain.explanation import explain_text
from redrive.flows.events import AnyEvent
from redrive.flows.message_events import SignalBuffered, SignalReceived, SignalRefused
from redrive.flows.messages import Signal, write_message
from redrive.stores.records import Batch
from redrive.testing import FlowApp, FlowOutcome, flow_app

pytestmark = pytest.mark.promise("E1")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    BROKEN[0] = False
    yield
    BROKEN[0] = False


def events(outcome: FlowOutcome, *kinds: type[AnyEvent]) -> list[Any]:
    return [line.event for line in outcome.lines if isinstance(line.event, kinds)]


def test_a_handler_gets_typed_arguments_and_the_flow_goes_on(address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Order.call("o-17"))
                assert await app.settled(handle) == "waiting"
                await handle.signal("note", text="in a hurry")
                await handle.signal("approved", approval={"by": "ann", "amount": 9.5})
                return await app.outcome(handle)

    assert asyncio.run(story()).result == "o-17 shipped for ann; notes: in a hurry"


def test_a_flow_that_waits_only_for_signals_leaves_memory_and_receives_them_in_order(address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Mail.call())
                assert await app.settled(handle) == "waiting"
                record = await app.find(handle.id)
                assert record.wake_at is None
                assert app._worker is not None
                assert not len(app._worker.flows)
                for n in range(20):
                    await handle.signal("letter", n=n)
                    if n % 5 == 0:
                        await app.settled(handle)
                await handle.signal("letter", n="stop")
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == list(range(20))
    assert [one.mailbox for one in events(outcome, SignalReceived)] == [True] * 21


def test_the_method_itself_may_be_given_and_checks_its_arguments() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Order.call("o-17"))
                with pytest.raises(SerializationError, match="signal approved: argument approval"):
                    await handle.signal(Order.approved, "ann")
                with pytest.raises(TypeError, match="no argument is named 'txt'; did you mean 'text'"):
                    await handle.signal(Order.take_note, txt="x")
                with pytest.raises(TypeError, match="arguments need names"):
                    await handle.signal("approved", "ann")
                with pytest.raises(TypeError, match=r"marked with @redrive\.signal"):
                    await handle.signal(Order.run, "ann")
                await handle.signal(Order.take_note, "hello")
                await handle.signal(Order.approved, Approval("ann"))
                return await app.outcome(handle)

    assert asyncio.run(story()).result == "o-17 shipped for ann; notes: hello"


async def before_it_begins(app: FlowApp) -> Handle[Any]:
    return await app.start(Order.call("o-17"), delay="1h")


async def while_paused(app: FlowApp) -> Handle[Any]:
    handle = await app.start(Order.call("o-17"))
    await app.settled(handle)
    await handle.pause(by="ann", why="lunch")
    assert await app.settled(handle) == "paused"
    return handle


async def with_its_queue_paused(app: FlowApp) -> Handle[Any]:
    handle = await app.start(Order.call("o-17"))
    await app.settled(handle)
    await app.pause_queue("default", by="ann", why="lunch")
    return handle


@pytest.mark.parametrize("when", [before_it_begins, while_paused, with_its_queue_paused])
def test_signals_are_kept_until_the_flow_can_take_them(address: str, when: Any) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await when(app)
                for text in ("one", "two"):
                    await handle.signal("note", text=text)
                await handle.signal("approved", approval={"by": "ann"})
                await app.settled(handle) if when is not with_its_queue_paused else None
                if when is while_paused:
                    await handle.resume(by="ann", why="back")
                elif when is with_its_queue_paused:
                    await app.resume_queue("default")
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "o-17 shipped for ann; notes: one two"
    received = events(outcome, SignalReceived)
    assert [one.signal for one in received] == ["note", "note", "approved"]
    if when is not with_its_queue_paused:
        assert [one.id for one in events(outcome, SignalBuffered)] == [one.id for one in received]


def test_a_signal_to_a_parked_flow_is_there_once_its_code_is_right(address: str) -> None:
    @workflow(name="signals.Changing")
    class Before(Workflow):
        async def run(self) -> str:
            await ship("a", "b")
            return str((await workflow.receive("go"))["by"])

    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Before.call())
                assert await app.settled(handle) == "waiting"

                @workflow(name="signals.Changing")
                class Wrong(Workflow):
                    async def run(self) -> str:
                        return str((await workflow.receive("go"))["by"])

                await handle.signal("go", by="ann")
                assert (await app.outcome(handle)).status == "parked"
                await handle.signal("go", by="bob")
                await app.until(lambda: True)

                workflow(name="signals.Changing")(Before)
                await handle.resume(by="ann", why="fixed")
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "ann"


def test_a_redrive_keeps_the_signals_that_came(address: str) -> None:
    BROKEN[0] = True

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Order.call("o-17"))
                await handle.signal("note", text="first")
                await handle.signal("approved", approval={"by": "ann"})
                failed = await app.outcome(handle)
                with pytest.raises(FlowFinishedError, match="failed; redrive it"):
                    await handle.signal("note", text="too late")
                BROKEN[0] = False
                await app.redrive(handle.id, by="ann", why="repaired")
                return failed, await app.outcome(handle)

    failed, outcome = asyncio.run(story())
    assert failed.status == "failed"
    assert outcome.result == "o-17 shipped for ann; notes: first"


def test_a_signal_that_a_failing_flow_left_unread_is_there_after_a_redrive(address: str) -> None:
    """It was stored before the flow failed, so it was acknowledged."""

    @workflow(name="signals.Fails")
    class Fails(Workflow):
        async def run(self) -> str:
            await ship("a", "b")
            return str((await workflow.receive("go"))["by"])

    BROKEN[0] = True

    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Fails.call())
                commit = app.store.commit

                async def slowly(lease: Any, batch: Any) -> None:
                    if any(one.status == "failed" for one in batch.flows) and not sent:
                        sent.append(1)
                        await handle.signal("go", by="ann")
                    await commit(lease, batch)

                sent: list[int] = []
                app.store.commit = slowly  # type: ignore[method-assign]
                failed = await app.outcome(handle)
                assert failed.status == "failed"
                BROKEN[0] = False
                await app.redrive(handle.id, by="ann", why="repaired")
                return await app.outcome(handle)

    assert asyncio.run(story()).result == "ann"


def test_a_flow_that_has_ended_refuses_signals(address: str) -> None:
    async def story() -> None:
        async with flow_app(address) as app:
            handle = await app.start(Order.call("o-17"))
            await handle.signal("approved", approval={"by": "ann"})
            await app.outcome(handle)
            with pytest.raises(FlowFinishedError, match="is completed"):
                await handle.signal("approved", approval={"by": "ann"})
            with pytest.raises(FlowNotFoundError):
                await app.handle("nobody").signal("approved")

    asyncio.run(story())


def test_arguments_that_do_not_fit_are_refused_and_the_flow_goes_on_waiting() -> None:
    async def story() -> tuple[FlowOutcome, str]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Order.call("o-17"))
                await handle.signal("approved", approval="ann")
                await handle.signal("approved")
                assert await app.settled(handle) == "waiting"
                await handle.signal("approved", approval={"by": "ann"})
                outcome = await app.outcome(handle)
                return outcome, explain_text(await app.explain(handle.id))

    outcome, text = asyncio.run(story())
    assert outcome.result == "o-17 shipped for ann; notes: "
    assert len(events(outcome, SignalRefused)) == 2
    assert "signal approved was refused: signal approved: its arguments" in text


def test_a_job_refuses_signals_and_ends_as_ever() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(ship("a", "b"), delay="1h")
                await handle.signal("go")
                await app.settled(handle)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == "a shipped for b"
    assert [one.why for one in events(outcome, SignalRefused)] == ["it runs a single action, which takes no signals"]


def test_a_signal_that_is_sent_twice_is_received_once(address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Mail.call())
                body = write_message(Signal(id="s-1", name="letter", args=Raw(b'{"n":1}')))
                await app.store.send(handle.id, body, app.now())
                await app.settled(handle)
                await app.store.send(handle.id, body, app.now())
                await handle.signal("letter", n="stop")
                return await app.outcome(handle)

    assert asyncio.run(story()).result == [1]


@pytest.mark.parametrize("stored", [True, False])
def test_a_signal_whose_answer_was_lost_is_sent_again_with_the_same_id(stored: bool, address: str) -> None:
    async def story() -> FlowOutcome:
        async with flow_app(address) as app:
            with app.clock.frozen():
                handle = await app.start(Steps.call(1))
                send, calls = app.store.send, []

                async def lossy(*args: Any) -> Any:
                    calls.append(args)
                    if len(calls) > 1:
                        return await send(*args)
                    if stored:
                        await send(*args)
                        # The flow ends before the signal is sent again.
                        await app.outcome(handle)
                    raise CommitUnknownError("the connection was lost")

                app.store.send = lossy  # type: ignore[method-assign, assignment]
                await handle.signal("go", by="ann")
                app.store.send = send  # type: ignore[method-assign]
                assert [args[1] for args in calls] == [calls[0][1]] * 2
                return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.result == ["step shipped for ann"]
    assert len(events(outcome, SignalReceived)) == 1


def test_a_start_may_bring_a_signal_and_a_running_flow_just_gets_it(address: str) -> None:
    async def story() -> tuple[bool, bool, FlowOutcome]:
        async with flow_app(address) as app:
            with app.clock.frozen():
                first = await app.start(Steps.call(2), key="o-17", signal=("go", {"by": "ann"}))
                again = await app.start(Steps.call(2), key="o-17", signal=("go", {"by": "bob"}))
                return first.is_new, again.is_new, await app.outcome(again)

    first, again, outcome = asyncio.run(story())
    assert (first, again) == (True, False)
    assert outcome.result == ["step shipped for ann", "step shipped for bob"]


def test_a_start_with_a_signal_on_the_callers_connection_is_refused() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with pytest.raises(TypeError, match="not with connection="):
                await app.start(Steps.call(1), connection=object(), signal=("go", {}))

    asyncio.run(story())


def test_a_handler_that_raises_fails_the_flow_and_a_redrive_calls_the_repaired_one() -> None:
    broken = [True]

    @workflow(name="signals.Raises")
    class Raises(Workflow):
        done = False

        @redrive.signal
        def go(self) -> None:
            if broken[0]:
                raise ValueError("a bug")
            self.done = True

        async def run(self) -> str:
            await workflow.wait_for(lambda: self.done)
            return "done"

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Raises.call())
                await handle.signal("go")
                failed = await app.outcome(handle)
                broken[0] = False
                await app.redrive(handle.id, by="ann", why="fixed")
                return failed, await app.outcome(handle)

    failed, outcome = asyncio.run(story())
    assert str(failed.error) == "a bug"
    assert outcome.result == "done"


def test_code_without_the_handler_of_a_received_signal_parks_the_flow() -> None:
    @workflow(name="signals.Loses")
    class Has(Workflow):
        seen = 0

        @redrive.signal
        def go(self) -> None:
            self.seen += 1

        async def run(self) -> int:
            await workflow.wait_for(lambda: self.seen == 2)
            return self.seen

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Has.call())
                await handle.signal("go")
                await app.settled(handle)

                @workflow(name="signals.Loses")
                class Lacks(Workflow):
                    async def run(self) -> int:
                        await workflow.wait_for(lambda: False)
                        return 0

                await handle.signal("go")
                parked = await app.outcome(handle)
                workflow(name="signals.Loses")(Has)
                await handle.resume(by="ann", why="back")
                return parked, await app.outcome(handle)

    parked, outcome = asyncio.run(story())
    assert parked.status == "parked"
    assert "the log says: signal go() for its handler; the code now says: it has no @signal method" in (
        parked.problem or ""
    )
    assert outcome.result == 2


def test_a_handler_that_is_added_later_leaves_received_signals_in_the_mailbox() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():

                @workflow(name="signals.Gains")
                class Before(Workflow):
                    async def run(self) -> list[Any]:
                        await asyncio.sleep(60)
                        return [await workflow.receive("go")]

                handle = await app.start(Before.call())
                await handle.signal("go", n=1)
                assert await app.settled(handle) == "waiting"
                await app.kill()

                @workflow(name="signals.Gains")
                class After(Workflow):
                    @redrive.signal
                    def other(self) -> None: ...

                    async def run(self) -> list[Any]:
                        await asyncio.sleep(60)
                        return [await workflow.receive("go")]

                app.revive()
            return await app.outcome(handle)

    assert asyncio.run(story()).result == [{"n": 1}]


def test_signals_that_nobody_read_are_told_when_the_flow_ends() -> None:
    async def story() -> str:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Steps.call(1))
                for by in "abc":
                    await app.settled(handle) if by == "a" else None
                    await app.store.send(
                        handle.id,
                        write_message(Signal(id=by, name="go" if by == "c" else "odd", args=Raw(b'{"by":"x"}'))),
                        app.now(),
                    )
                await app.outcome(handle)
                return explain_text(await app.explain(handle.id))

    assert "it ends without having read 2 signals: odd" in asyncio.run(story())


def test_a_signal_that_is_stored_while_the_flow_ends_is_told_of(address: str) -> None:
    async def story() -> tuple[str, str]:
        async with flow_app(address) as app:
            with app.clock.frozen():
                in_time, late = await app.start(Steps.call(1)), await app.start(Steps.call(1))
                await app.settled(in_time)
                await app.settled(late)
                commit = app.store.commit

                async def just_before(lease: Any, batch: Batch) -> None:
                    if late.id in batch.ended:
                        await late.signal("go", by="eve")
                    await commit(lease, batch)

                app.store.commit = just_before  # type: ignore[method-assign]
                for handle in (in_time, late):
                    await handle.signal("go", by="ann")
                    await app.outcome(handle)
                return explain_text(await app.explain(in_time.id)), explain_text(await app.explain(late.id))

    in_time, late = asyncio.run(story())
    assert "1 message came while it ended, too late to be read" in late
    assert "too late" not in in_time


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: redrive.signal(name="")(lambda self: None), "1 to 200 characters"),
        (lambda: redrive.signal(Mail.run), "needs a plain method"),
    ],
)
def test_a_method_that_cannot_be_a_handler_is_refused(make: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_two_handlers_of_one_signal_and_an_unmarked_override_are_refused() -> None:
    with pytest.raises(TypeError, match="one and two both handle the signal 'go'"):

        @workflow(name="signals.Twice")
        class Twice(Workflow):
            @redrive.signal(name="go")
            def one(self) -> None: ...

            @redrive.signal(name="go")
            def two(self) -> None: ...

            async def run(self) -> None: ...

    with pytest.raises(TypeError, match=r"Child\.take_note overrides a handler of Order: mark it as one, too"):

        @workflow(name="signals.Child")
        class Child(Order):
            def take_note(self, text: str) -> None: ...
