"""Flows that leave memory, or whose worker dies, go on where they were; code that changed meanwhile is found out."""

import asyncio
import enum
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pydantic
import pytest

import redrive
from redrive import Workflow, action, report_of, workflow
from redrive.testing import FlowApp, FlowOutcome, crash_everywhere, flow_app, run_flow

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    RAN.clear()


class Refused(Exception):
    """Raised by actions."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what, code)
        self.code = code


@action
async def note(what: str) -> str:
    RAN.append(what)
    return what


@action
async def other(what: str) -> str:
    RAN.append(what)
    return what


@action(retry="[Refused -> retry: 1, backoff: 1h]")
async def refuse(what: str) -> None:
    RAN.append(what)
    raise Refused(what, 7)


def changed(
    old: type[Workflow], new: Callable[[], type[Workflow]], mended: Callable[[], type[Workflow]]
) -> FlowOutcome:
    """Let a flow of the old code wait for an hour; its code changes, then is mended, and it is resumed."""

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(old.call())
                await app.settled(handle)
                new()
                app.clock.advance(3600)
            parked = await app.outcome(handle)
            mended()
            await handle.resume(by="ann", why="brought the code back")
            done = await app.outcome(handle)
            assert done.status == "completed", done
            assert done.lines[: len(parked.lines)] == parked.lines
            return parked

    return asyncio.run(story())


def original() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            two = await other("two")
            await asyncio.sleep(3600)
            return [one, two, await note("three")]

    return Changing


def with_an_action_more() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            await note("zero")
            return [await note("one"), await other("two")]

    return Changing


def with_an_action_less() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            await asyncio.sleep(3600)
            return [one]

    return Changing


def with_actions_swapped() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            two = await other("two")
            return [two, await note("one")]

    return Changing


def with_other_arguments() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            return [one, await other("II")]

    return Changing


def with_another_sleep() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            two = await other("two")
            await asyncio.sleep(1800)
            return [one, two]

    return Changing


def with_something_at_the_same_time() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            return list(await asyncio.gather(note("one"), other("two")))

    return Changing


def that_ends_early() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            return [await note("one"), await other("two")]

    return Changing


def that_raises() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            raise LookupError(one)

    return Changing


def with_an_argument_that_does_not_fit() -> type[Workflow]:
    @workflow(name="Changing")
    class Changing(Workflow):
        async def run(self) -> list[str]:
            one = await note("one")
            return [one, await other(cast("str", 2))]

    return Changing


@pytest.mark.parametrize(
    ("new", "seq", "logged", "now", "source"),
    [
        (with_an_action_more, 1, 'action note("what":"one")', 'action note("what":"zero")', 'await note("zero")'),
        (with_an_action_less, 3, 'action other("what":"two")', "a timer until", "asyncio.sleep(3600)"),
        (with_actions_swapped, 1, 'action note("what":"one")', 'action other("what":"two")', 'other("two")'),
        (with_other_arguments, 3, 'action other("what":"two")', 'action other("what":"II")', 'other("II")'),
        (
            with_another_sleep,
            5,
            "a timer until 2030-01-01 01:00:00.000 UTC",
            "a timer until 2030-01-01 00:30:00.000 UTC",
            "asyncio.sleep(1800)",
        ),
        (with_something_at_the_same_time, 1, "no further command", 'action other("what":"two")', "gather("),
        (that_ends_early, 5, "a timer until", "the end of run", None),
        (that_raises, 3, 'action other("what":"two")', "run failed with LookupError: one", "raise LookupError"),
        (
            with_an_argument_that_does_not_fit,
            3,
            'action other("what":"two")',
            "run failed with SerializationError: action other",
            'other(cast("str", 2))',
        ),
    ],
)
def test_changed_code_parks_the_flow_and_names_both_lines(
    new: Callable[[], type[Workflow]], seq: int, logged: str, now: str, source: str | None
) -> None:
    parked = changed(original(), new, original)
    assert parked.status == "parked"
    assert RAN == ["one", "two", "three"]
    problem = parked.problem or ""
    assert problem.startswith(f"line {seq} of the log says: {logged}")
    assert f"the code now says: {now}" in problem
    if source is not None:
        place = re.search(r"\((\w+\.py):(\d+)\)", problem)
        assert place is not None, problem
        assert source in (Path(__file__).parent / place[1]).read_text().splitlines()[int(place[2]) - 1]


def test_a_parked_flow_stays_parked_while_its_code_is_still_wrong() -> None:
    async def story() -> list[str]:
        async with flow_app() as app:
            handle = await parked_flow(app)
            await handle.resume()
            assert (await app.outcome(handle)).status == "parked"
            original()
            await handle.resume()
            return (await app.outcome(handle)).result  # type: ignore[no-any-return]

    assert asyncio.run(story()) == ["one", "two", "three"]
    assert RAN == ["one", "two", "three"]


def test_a_parked_flow_can_be_cancelled() -> None:
    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await parked_flow(app)
            await handle.cancel(by="ann", why="no longer needed")
            return await app.outcome(handle)

    assert asyncio.run(story()).status == "cancelled"


async def parked_flow(app: FlowApp) -> redrive.Handle[Any]:
    with app.clock.frozen():
        handle = await app.start(original().call())
        await app.settled(handle)
        with_actions_swapped()
        app.clock.advance(3600)
    assert (await app.outcome(handle)).status == "parked"
    return handle


def test_changed_code_is_found_out_after_a_redrive_too() -> None:
    """What a redrive answers anew ends at the redrive: later lines must fit again."""

    def version(late: str) -> type[Workflow]:
        @workflow(name="RedrivenThenChanged")
        class Changing(Workflow):
            async def run(self, broken: bool = True) -> str:
                await note("first")
                if fixed == [False]:
                    raise ValueError("a bug")
                await note(late)
                await asyncio.sleep(3600)
                return await note("last")

        return Changing

    fixed = [False]

    async def story() -> FlowOutcome:
        async with flow_app() as app:
            handle = await app.start(version("second").call())
            assert (await app.outcome(handle)).status == "failed"
            fixed[0] = True
            with app.clock.frozen():
                await app.redrive(handle.id, by="ann", why="mended")
                await app.settled(handle)
                version("zweite")
                app.clock.advance(3600)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.status == "parked"
    assert RAN == ["first", "second"]
    assert 'action note("what":"second")' in str(outcome)


def test_patched_keeps_old_code_for_old_flows_and_new_code_for_new_ones() -> None:
    def old() -> type[Workflow]:
        @workflow(name="Patched")
        class Old(Workflow):
            async def run(self) -> list[str]:
                first = await note("first")
                await asyncio.sleep(3600)
                second = await note("old way")
                await asyncio.sleep(3600)
                return [first, second]

        return Old

    def new() -> type[Workflow]:
        @workflow(name="Patched")
        class New(Workflow):
            async def run(self) -> list[str]:
                if workflow.patched("new way"):
                    await note("before all")
                first = await note("first")
                await asyncio.sleep(3600)
                second = await note("new way" if workflow.patched("new way") else "old way")
                await asyncio.sleep(3600)
                return [first, second]

        return New

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            with app.clock.frozen():
                before = await app.start(old().call())
                await app.settled(before)
                after = await app.start(new().call())
                await app.settled(after)
            return await app.outcome(before), await app.outcome(after)

    before, after = asyncio.run(story())
    assert (before.result, before.steps) == (["first", "old way"], ["note", "note"])
    assert (after.result, after.steps) == (["first", "new way"], ["note", "note", "note"])


def test_patched_is_the_same_wherever_the_worker_dies() -> None:
    @workflow
    class TwoPatches(Workflow):
        async def run(self) -> list[str]:
            found = [await note("a")] if workflow.patched("one") else []
            await asyncio.sleep(60)
            if workflow.patched("two") and workflow.patched("one"):
                found.append(await note("b"))
            return found

    for run in crash_everywhere(TwoPatches.call()):
        assert run.outcome.result == ["a", "b"]


@workflow
class Chance(Workflow):
    async def run(self) -> list[str]:
        seen = [str(workflow.uuid()), str(workflow.random().random()), workflow.now().isoformat(), workflow.flow_id()]
        await note("between")
        await asyncio.sleep(86_400)
        seen += [str(workflow.uuid()), str(workflow.random().randint(0, 10**9)), workflow.now().isoformat()]
        await note(seen[-1])
        await asyncio.sleep(86_400)
        return seen


class Shade(enum.Enum):
    """Its sets keep the order in which they were filled: other hashes in another process give another order too."""

    RED, GREEN, BLUE, CYAN = "red", "green", "blue", "cyan"

    def __hash__(self) -> int:
        return 1


THERE = list(Shade)
BACK = THERE[::-1]


class Palette(pydantic.BaseModel):
    shades: set[Shade]


@action
async def paint(shades: set[Shade]) -> int:
    return len(shades)


@action
async def paint_all(*shades: set[Shade], **more: set[Shade]) -> int:
    return len(shades) + len(more)


@action
async def paint_from(palette: Palette) -> int:
    return len(palette.shades)


@action
async def take(anything: Any) -> Any:
    return anything


SETS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "set of enums": (lambda: paint(set(THERE)), lambda: paint(set(BACK))),
    "several": (
        lambda: paint_all(set(THERE), set(BACK), by=set(THERE)),
        lambda: paint_all(set(BACK), set(THERE), by=set(BACK)),
    ),
    "in a pydantic model": (
        lambda: paint_from(Palette(shades=set(THERE))),
        lambda: paint_from(Palette(shades=set(BACK))),
    ),
}
OTHERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "another member": (lambda: paint({Shade.RED, Shade.BLUE}), lambda: paint({Shade.RED, Shade.CYAN})),
    "lists have an order": (lambda: take([1, 2]), lambda: take([2, 1])),
    "equal for Python only": (lambda: take(1), lambda: take(True)),
}


@pytest.mark.parametrize(
    ("then", "now", "status"),
    [(*both, "completed") for both in SETS.values()] + [(*both, "parked") for both in OTHERS.values()],
    ids=[*SETS, *OTHERS],
)
def test_sets_in_another_order_are_still_what_was_asked_for(
    then: Callable[[], Any], now: Callable[[], Any], status: str
) -> None:
    is_later = False

    @workflow(name="Painting")
    class Painting(Workflow):
        async def run(self) -> None:
            await (now if is_later else then)()
            await asyncio.sleep(3600)

    async def story() -> FlowOutcome:
        nonlocal is_later
        async with flow_app() as app:
            with app.clock.frozen():
                handle = await app.start(Painting.call())
                await app.settled(handle)
                is_later = True
                app.clock.advance(3600)
            return await app.outcome(handle)

    outcome = asyncio.run(story())
    assert outcome.status == status, outcome


@pytest.mark.promise("A14")
def test_time_and_chance_are_the_same_when_the_code_is_run_again() -> None:
    first = run_flow(Chance.call())
    seen = first.result
    assert seen[2] == datetime.fromtimestamp(first.began, UTC).isoformat()
    assert datetime.fromisoformat(seen[6]) == datetime(2030, 1, 2, tzinfo=UTC)
    assert len({seen[0], seen[1], seen[4], seen[5]}) == 4
    assert run_flow(Chance.call()).result == seen


def test_flows_draw_different_chance() -> None:
    async def story() -> list[list[str]]:
        async with flow_app() as app:
            handles = [await app.start(Chance.call()) for _ in range(2)]
            return [(await app.outcome(handle)).result for handle in handles]

    one, another = asyncio.run(story())
    assert not {one[0], one[1], one[4]} & {another[0], another[1], another[4]}


@workflow
class Touches(Workflow):
    async def run(self, what: str) -> str:
        await note("before")
        if what == "network":
            await asyncio.open_connection("127.0.0.1", 9)
        elif what == "lookup":
            await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        elif what == "thread":
            await asyncio.to_thread(socket.gethostname)
        elif what == "process":
            await asyncio.create_subprocess_exec("true")
        elif what == "signal":
            asyncio.get_running_loop().add_signal_handler(1, print)
        return "unreached"


@pytest.mark.parametrize("what", ["network", "lookup", "thread", "process", "signal"])
def test_real_input_and_output_in_run_is_refused_with_what_to_do_instead(what: str) -> None:
    outcome = run_flow(Touches.call(what))
    assert outcome.status == "failed"
    assert "move it into an @action and await that" in str(outcome.error)


def test_redrive_calls_in_run_that_would_block_are_refused() -> None:
    @redrive.retry(attempts=2)
    def blocking() -> None:
        raise ConnectionError

    @workflow
    class Blocks(Workflow):
        async def run(self) -> None:
            blocking()

    assert "a workflow cannot block" in str(run_flow(Blocks.call()).error)


@pytest.mark.promise("R9")
def test_an_exception_is_the_same_live_and_replayed_with_its_attempts() -> None:
    seen: list[tuple[Any, ...]] = []

    @workflow
    class Handles(Workflow):
        async def run(self) -> str:
            try:
                await refuse("no")
            except Refused as error:
                report = report_of(error)
                assert report is not None
                seen.append(
                    (
                        type(error),
                        error.args,
                        error.code,
                        [record.number for record in report.attempts],
                        [record.began for record in report.attempts],
                        report.gave_up.kind,
                        error.__notes__,
                    )
                )
            await asyncio.sleep(3600)
            return await note("handled")

    outcome = run_flow(Handles.call())
    assert outcome.result == "handled"
    assert RAN == ["no", "no", "handled"]
    live, replayed = seen
    assert live == replayed
    assert live[:6] == (Refused, ("no", 7), 7, [1, 2], [0.0, 3600.0], "exhausted")


@pytest.mark.promise("R9")
def test_a_handled_failure_is_never_run_again() -> None:
    @action
    async def fails() -> None:
        RAN.append("fails")
        raise redrive.Permanent("for good")

    @workflow
    class Compensates(Workflow):
        async def run(self) -> list[str]:
            try:
                await fails()
            except redrive.Permanent:
                found = await note("compensated")
            else:
                found = "unreached"
            finally:
                await note("cleaned up")
            return [found]

    for run in crash_everywhere(Compensates.call()):
        assert run.outcome.result == ["compensated"]


@pytest.mark.parametrize(
    "leaves", ["because it waits long", "because there is no room", "because its worker is killed"]
)
def test_code_that_leaves_memory_does_not_do_its_cleaning_up(leaves: str) -> None:
    """Nothing that the `finally` of code that is only forgotten asks for is done."""

    @action
    def note_in_thread(what: str) -> str:
        RAN.append(what)
        return what

    async def pages() -> Any:
        try:
            yield "page"
            yield "another"
        finally:
            await note("generator closed")

    @workflow
    class CleansUp(Workflow):
        async def run(self, seconds: float) -> str:
            try:
                async for _ in pages():
                    await asyncio.sleep(seconds)
            finally:
                await note("released")
                await asyncio.sleep(0.5)
                await note_in_thread("closed")
            return "done"

    async def story() -> FlowOutcome:
        async with flow_app(flows=1 if leaves == "because there is no room" else 100) as app:
            with app.clock.frozen():
                seconds = 7.0 if leaves == "because it waits long" else 2.0
                first = await app.start(CleansUp.call(seconds))
                await app.settled(first)
                second = await app.start(CleansUp.call(seconds))
                await app.settled(second)
                if leaves == "because its worker is killed":
                    await app.kill()
                    app.revive()
                assert RAN == []
            await app.outcome(second)
            return await app.outcome(first)

    outcome = asyncio.run(story())
    assert outcome.result == "done"
    assert sorted(RAN) == ["closed", "closed", "generator closed", "generator closed", "released", "released"]
    assert outcome.steps == ["note", "note", "note_in_thread"]


def test_many_more_flows_than_there_is_room_for_all_get_their_turn() -> None:
    @workflow
    class Waits(Workflow):
        async def run(self, number: int) -> int:
            await note(f"{number} begins")
            await asyncio.sleep(1 + number % 3)
            await note(f"{number} ends")
            return number

    async def story() -> list[int]:
        async with flow_app(flows=3) as app:
            handles = [await app.start(Waits.call(number)) for number in range(40)]
            return [(await app.outcome(handle)).result for handle in handles]

    assert asyncio.run(story()) == list(range(40))
    assert len(RAN) == len(set(RAN)) == 80


def test_code_that_waits_for_nothing_is_parked_and_says_so() -> None:
    @workflow
    class Stuck(Workflow):
        async def run(self) -> None:
            await note("before")
            await asyncio.Event().wait()

    outcome = run_flow(Stuck.call())
    assert outcome.status == "parked"
    assert "waits for something that will never happen" in (outcome.problem or "")


def test_code_that_waits_for_a_thread_is_told_to_put_it_into_an_action() -> None:
    @workflow
    class WaitsForThread(Workflow):
        async def run(self) -> int:
            with ThreadPoolExecutor(1) as threads:
                return await asyncio.wrap_future(threads.submit(int, "5"))

    assert "the result of a thread: put such work into an @action" in (run_flow(WaitsForThread.call()).problem or "")


@pytest.mark.promise("P17")
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (SystemExit(3), "raised SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("where", ["action", "plain action", "run"])
def test_what_would_end_a_program_or_a_task_fails_the_flow_and_not_its_worker(
    error: BaseException, says: str, where: str
) -> None:
    @action
    async def ends() -> None:
        raise error

    @action
    def ends_plainly() -> None:
        raise error

    @workflow
    class Ends(Workflow):
        async def run(self) -> None:
            await note("before")
            if where == "run":
                raise error
            await (ends() if where == "action" else ends_plainly())

    async def story() -> tuple[FlowOutcome, Any]:
        async with flow_app() as app:
            outcome = await app.outcome(await app.start(Ends.call()))
            return outcome, (await app.dead_letters())[0].flow_id

    outcome, dead = asyncio.run(story())
    assert outcome.status == "failed"
    assert dead == outcome.flow_id
    if where != "run" or isinstance(error, SystemExit):
        assert says in str(outcome.error)


SEEN: list[float] = []
GATES: list[asyncio.Event] = []


@action(name="replay.wait_at_gate")
async def wait_at_gate() -> None:
    reached, opened = GATES
    reached.set()
    await opened.wait()


@workflow(name="replay.LooksAtItsClock")
class LooksAtItsClock(Workflow):
    async def run(self) -> None:
        for number in range(20):
            SEEN.append(asyncio.get_running_loop().time())
            await note(str(number))
        await wait_at_gate()


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_code_sees_the_same_times_when_it_is_replayed_though_a_store_keeps_only_microseconds(address: str) -> None:
    async def story() -> None:
        GATES[:] = reached, opened = asyncio.Event(), asyncio.Event()
        SEEN.clear()
        async with redrive.open(address, grace=0.0) as app:
            handle = await app.start(LooksAtItsClock.call())
            await asyncio.wait_for(reached.wait(), 10)
        live = list(SEEN)
        SEEN.clear()
        opened.set()
        async with redrive.open(address) as app:
            await app.handle(handle.id).result(timeout=10)
        assert len(live) == 20
        assert live == SEEN

    asyncio.run(story())


class NoException(BaseException):
    """Not one that `except Exception` catches."""


@pytest.mark.parametrize(
    ("where", "error"),
    [("__init__", NoException("no")), ("__init__", SystemExit("no")), ("a callback", NoException("no"))],
)
def test_whatever_the_code_of_a_flow_raises_ends_the_flow_and_not_its_worker(where: str, error: BaseException) -> None:
    def fail() -> None:
        raise error

    @workflow(name="replay.Fails")
    class Fails(Workflow):
        def __init__(self) -> None:
            if where == "__init__":
                fail()

        async def run(self) -> str:
            asyncio.get_running_loop().call_soon(fail)
            return await note("ran")

    async def story() -> tuple[FlowOutcome, FlowOutcome]:
        async with flow_app() as app:
            return await app.outcome(await app.start(Fails.call())), await app.outcome(await app.start(note("next")))

    failed, following = asyncio.run(story())
    assert failed.status == "failed"
    assert str(failed.error) == f"{where} raised {type(error).__name__}: no"
    assert following.result == "next"


class Answer(Exception):
    """As errors of some clients: its attributes are the fields of what came back."""

    def __getattr__(self, name: str) -> Any:
        return {"code": 7}[name]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a group"])
def test_an_error_with_attributes_of_its_own_making_fails_the_flow_that_raises_it(inside: bool) -> None:
    @workflow(name="replay.Answers")
    class Answers(Workflow):
        async def run(self) -> None:
            error = Answer("no such user")
            raise ExceptionGroup("several", [error]) if inside else error

    outcome = run_flow(Answers.call())
    assert outcome.status == "failed"
    assert isinstance(outcome.error, ExceptionGroup if inside else Answer)
