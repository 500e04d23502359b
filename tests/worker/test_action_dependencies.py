"""Actions name what they talk to, and wait for it as the steps of graphs do."""

import asyncio
from typing import Any

import pytest

from redrive import Graph, RetryPolicy, Script, Workflow, action, define_dependency, workflow
from redrive.explain.explanation import explain_text
from redrive.flows.events import ItemDeferred
from redrive.resilience.circuit import CircuitSettings
from redrive.telemetry.events import AttemptFailed
from redrive.telemetry.stream import listen
from redrive.testing import flow_app

DOWN_FOR = 60.0
TOO_MANY = 30


class Bank:
    """Down for a minute; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.now: Any = None

    def call(self) -> str:
        self.calls.append(self.now())
        if self.now() < DOWN_FOR:
            raise ConnectionError("away")
        return "paid"


BANK = Bank()
EVERY_SECOND = RetryPolicy(attempts=None, backoff_seconds=1, max_backoff_seconds=1)


@action(name="dependent.charge", dependency="bank", retry=EVERY_SECOND)
async def charge() -> str:
    return BANK.call()


@action(name="dependent.charge_in_thread", dependency="bank", retry=EVERY_SECOND)
def charge_in_thread() -> str:
    return BANK.call()


@action(name="dependent.plain", retry=EVERY_SECOND)
async def plain() -> str:
    return BANK.call()


@workflow(name="dependent.Order")
class Order(Workflow):
    async def run(self, how: str) -> str:
        if how == "call":
            return await self.run_action(plain(), dependency="bank")
        if how == "overridden":
            return await self.run_action(charge(), dependency="another bank")
        return await (plain() if how == "plain" else charge())


FLOWS: dict[str, Any] = {
    "workflow": lambda: Order.call("action"),
    "call": lambda: Order.call("call"),
    "job": lambda: charge(),
    "thread": lambda: charge_in_thread(),
    "script": lambda: Script("dependent", "fn main():\n    return @dependent.charge()\n").call(),
    "graph": lambda: Graph("dependent").step("ask", charge, outputs=["answer"]).call({}),
}


def run(call: Any, flows: int = 10) -> tuple[int, list[str], int]:
    """Start flows while the bank is down; return how often it was called, their ends, and how often they waited."""

    async def story() -> tuple[int, list[str], int]:
        async with flow_app() as app:
            begin = app.clock.monotonic()
            BANK.calls, BANK.now = [], lambda: app.clock.monotonic() - begin
            handles = [await app.start(call()) for _ in range(flows)]
            ends = [str((await app.outcome(handle)).status) for handle in handles]
            logs = [line.event for handle in handles for line in await app.log(handle.id)]
            return len(BANK.calls), ends, sum(isinstance(event, ItemDeferred) for event in logs)

    return asyncio.run(story())


@pytest.mark.promise("P13", "L1")
@pytest.mark.parametrize("which", FLOWS)
def test_calls_wait_for_what_their_action_talks_to(which: str) -> None:
    calls, ends, deferred = run(FLOWS[which])
    assert ends == ["completed"] * 10
    assert deferred
    assert calls < TOO_MANY


def test_without_a_dependency_every_flow_keeps_asking() -> None:
    calls, ends, deferred = run(lambda: Order.call("plain"))
    assert ends == ["completed"] * 10
    assert not deferred
    assert calls > 10 * DOWN_FOR / 2


def test_a_call_may_name_another_dependency_and_both_are_reported() -> None:
    heard: list[str | None] = []

    def hear(event: Any) -> None:
        if isinstance(event, AttemptFailed):
            heard.append(event.dependency)

    stop = listen(hear)
    try:
        run(lambda: Order.call("overridden"), flows=1)
        run(lambda: Order.call("action"), flows=1)
    finally:
        stop()
    assert heard[0] == "another bank"
    assert heard[-1] == "bank"


def test_what_a_call_talks_to_is_known_to_the_worker_that_takes_over() -> None:
    """The log has it: the code of the call is not run again before its retry is due."""
    define_dependency("bank", circuit=CircuitSettings(failures=1, cooldown=300))

    async def story() -> str:
        async with flow_app() as app:
            BANK.calls, BANK.now = [], lambda: 0.0
            with app.clock.frozen():
                handle = await app.start(Order.call("call"))
                await app.settled(handle)
                await app.kill()
                app.revive()
                app.clock.advance(2)
                await app.settled(handle)
                # Its own circuit has heard of no failure yet.
                assert len(BANK.calls) == 2
                other = await app.start(charge())
                await app.settled(other)
                text = explain_text(await app.explain(other.id))
            await handle.cancel(force=True)
            await other.cancel(force=True)
            return text

    try:
        assert "the circuit of bank is open" in asyncio.run(story())
    finally:
        define_dependency("bank")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 5])
def test_a_name_that_cannot_be_used_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"dependency: .* is not allowed; use a name such as 'payments'"):

        @action(name="dependent.refused", dependency=name)
        async def refused() -> None: ...


def test_a_password_in_the_name_is_not_kept() -> None:
    @action(name="dependent.address", dependency="postgresql://me:hunter2@db/app")
    async def address() -> None: ...

    assert "hunter2" not in str(address.dependency)


def test_the_times_at_which_it_was_held_back_are_told_in_order_with_its_attempts() -> None:
    async def story() -> str:
        async with flow_app() as app:
            begin = app.clock.monotonic()
            BANK.calls, BANK.now = [], lambda: app.clock.monotonic() - begin
            handles = [await app.start(charge()) for _ in range(10)]
            for handle in handles:
                await app.outcome(handle)
            return explain_text(await app.explain(handles[0].id), everything=True)

    lines = asyncio.run(story()).splitlines()
    assert any("   held back until 00:" in line and "the circuit of bank is open" in line for line in lines)
    times = [line[2:14] for line in lines if line[4:5] == ":"]
    assert len(times) > 4
    assert times == sorted(times)
