"""What `@workflow` and `@action` refuse, and calls that nobody awaits."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.testing import crash_everywhere, flow_app, run_flow


@action(name="definitions.charge")
async def charge(cents: int) -> int:
    return cents


def needs_an_argument() -> None:
    @workflow
    class Refused(Workflow):
        def __init__(self, bank: str) -> None:
            self.bank = bank

        async def run(self) -> None: ...


def is_no_coroutine() -> None:
    @workflow
    class Refused(Workflow):
        def run(self) -> None:  # type: ignore[override]  # what is refused
            ...


def yields() -> None:
    @workflow
    class Refused(Workflow):
        async def run(self) -> Any:
            yield 1


def is_a_method() -> None:
    class Bank:
        @action
        async def charge(self, cents: int) -> None: ...


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (needs_an_argument, r"Refused\.__init__ requires 'bank', but .*; make it a parameter of run"),
        (is_no_coroutine, r"Refused needs `async def run\(self, \.\.\.\)`"),
        (yields, r"Refused needs `async def run\(self, \.\.\.\)`"),
        (is_a_method, r"@action on the method .*Bank\.charge: a method cannot be an action"),
    ],
)
def test_what_could_only_fail_later_is_refused_when_it_is_defined(define: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        define()


def test_parameters_may_be_named_as_settings_of_start_are() -> None:
    @workflow(name="definitions.Keyed")
    class Keyed(Workflow):
        def __init__(self, greeting: str = "hello") -> None:
            self.greeting = greeting

        async def run(self, key: str, queue: int) -> str:
            return f"{self.greeting} {key} {queue}"

    assert run_flow(Keyed.call("door", queue=17)).result == "hello door 17"


def test_a_workflow_whose_init_raises_fails() -> None:
    @workflow(name="definitions.Broken")
    class Broken(Workflow):
        def __init__(self) -> None:
            raise LookupError("no such bank")

        async def run(self) -> None: ...

    outcome = run_flow(Broken.call())
    assert (outcome.status, str(outcome.error)) == ("failed", "no such bank")


@workflow(name="definitions.Forgets")
class Forgets(Workflow):
    async def run(self) -> str:
        charge(1)
        return "done"


LINE = Forgets.run.__code__.co_firstlineno + 1


def test_a_forgotten_await_fails_a_test_and_says_where() -> None:
    with pytest.raises(AssertionError, match=rf"test_definitions\.py:{LINE}: .* the step is skipped: write `await def"):
        run_flow(Forgets.call())


def test_a_forgotten_await_is_warned_of_elsewhere() -> None:
    async def run() -> Any:
        async with redrive.open("memory://") as app:
            return await (await app.start(Forgets.call())).result()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert asyncio.run(run()) == "done"
        charge(2)
        gc.collect()
    ours = [one for one in told if "definitions.charge was never awaited" in str(one.message)]
    assert [one.category for one in ours] == [RuntimeWarning, RuntimeWarning]
    assert (ours[0].filename, ours[0].lineno) == (__file__, LINE)
    assert "it did not run" in str(ours[1].message)


@workflow(name="definitions.Remembers")
class Remembers(Workflow):
    """Every way to hand a call on, and one that waits while the flow does."""

    async def run(self) -> int:
        later = charge(1)
        await asyncio.sleep(3600)
        first = await asyncio.gather(charge(2), self.run_action(charge(3), timeout=5))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(charge(4))
        cancelled = asyncio.ensure_future(charge(5))
        cancelled.cancel()
        return sum(first) + task.result() + await later


def test_calls_that_are_handed_on_are_not_taken_for_forgotten(recwarn: pytest.WarningsRecorder) -> None:
    async def story() -> int:
        async with flow_app(flows=1) as app:
            jobs = [await app.start(charge(10)), await app.start(charge(20))]
            flows = [await app.start(Remembers.call()), await app.start(Remembers.call())]
            return sum([await one.result() for one in (*jobs, *flows)])

    assert asyncio.run(story()) == 50
    crash_everywhere(Remembers.call())
    charge(6).close()
    gc.collect()
    assert [str(one.message) for one in recwarn] == []
