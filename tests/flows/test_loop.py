"""The event loop of flows: what asyncio offers without I/O works on it, and goes the same way every time."""

import asyncio
import contextvars
import heapq
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.flows.commands import CancelItem, Command, EndFlow, MarkPatch, ScheduleItem, StartTimer
from redrive.flows.workflows.driver import workflow_driver
from redrive.flows.workflows.loop_errors import FlowSpins, NotInWorkflow

START = 1_000_000.0


@action(name="loop.echo")
async def echo(what: str, seconds: float = 1.0) -> str:
    return what


class Played:
    """A workflow at work without an engine: each item takes the seconds that its arguments name."""

    def __init__(self, body: Callable[[], Any], flow_id: str = "flow-1") -> None:
        @workflow(name="loop.Played")
        class Body(Workflow):
            async def run(self) -> Any:
                return await body()

        self.story: list[str] = []
        """What the code asked for, in order."""
        self.end: EndFlow | None = None
        self.now = START
        self._driver = workflow_driver(Body, flow_id, "{}")
        self._due: list[tuple[float, int, str, Any]] = []
        self._count = 0
        self._cancelled: set[int] = set()
        self._take(self._driver.start(self.now))
        self._continue()
        while self._due and self.end is None:
            self.now, number, kind, value = heapq.heappop(self._due)
            if kind == "item" and number not in self._cancelled:
                self._take(self._driver.completed(number, value, self.now))
            elif kind == "timer" and self._driver.awaits_timer(number):
                self._take(self._driver.fired(number, self.now))
            self._continue()
        self._driver.discard()

    def _continue(self) -> None:
        while self._driver.has_more and self.end is None:
            self._take(self._driver.more(self.now))

    @property
    def seconds(self) -> float:
        return self.now - START

    @property
    def result(self) -> Any:
        assert self.end is not None, self.story
        if self.end.error is not None:
            raise self.end.error
        return workflow_result(self.end)

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            self._count += 1
            if isinstance(command, ScheduleItem):
                assert command.values is not None
                self._driver.bind_item(command, self._count)
                self.story.append(f"{self.seconds:g} {command.values['what']}")
                done = self.now + command.values.get("seconds", 1.0)
                heapq.heappush(self._due, (done, self._count, "item", f'"{command.values["what"]}"'))
            elif isinstance(command, StartTimer):
                self._driver.bind_timer(command, self._count)
                self.story.append(f"{self.seconds:g} timer {command.time - self.now:g}")
                heapq.heappush(self._due, (command.time, self._count, "timer", None))
            elif isinstance(command, CancelItem):
                self.story.append(f"{self.seconds:g} no longer {command.scheduled.step}")
                self._cancelled.add(command.scheduled.item)
            elif isinstance(command, EndFlow):
                self.end = command
            else:
                assert isinstance(command, MarkPatch)


def workflow_result(end: EndFlow) -> Any:
    import msgspec

    return msgspec.json.decode(end.result)


async def gathers() -> Any:
    return list(await asyncio.gather(echo("a", 3), echo("b", 1), asyncio.sleep(2, "slept")))


async def gathers_with_errors() -> Any:
    async def bad() -> None:
        await echo("before")
        raise ValueError("bad")

    found = await asyncio.gather(bad(), echo("good"), return_exceptions=True)
    return [repr(one) for one in found]


async def groups() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(echo(name, seconds)) for name, seconds in [("a", 3), ("b", 1)]]
    return [task.result() for task in tasks]


async def groups_that_fail() -> Any:
    async def bad() -> None:
        await echo("before")
        raise ValueError("bad")

    found: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(echo("long", 100))
            group.create_task(bad())
    except* ValueError as errors:
        found = [str(error) for error in errors.exceptions]
    return found


async def waits_for_the_first() -> Any:
    tasks = [asyncio.create_task(echo(name, seconds), name=name) for name, seconds in [("a", 3), ("b", 1), ("c", 2)]]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return [sorted(task.get_name() for task in done), sorted(task.get_name() for task in pending)]


async def waits_for_all_with_a_timeout() -> Any:
    tasks = [asyncio.create_task(echo(name, seconds), name=name) for name, seconds in [("a", 3), ("b", 1)]]
    done, pending = await asyncio.wait(tasks, timeout=2)
    return [[task.get_name() for task in done], [task.get_name() for task in pending]]


async def takes_them_as_they_complete() -> Any:
    tasks = [asyncio.create_task(echo(name, seconds)) for name, seconds in [("a", 3), ("b", 1), ("c", 2)]]
    return [await task for task in asyncio.as_completed(tasks)]


async def takes_calls_as_they_complete() -> Any:
    return [await call for call in asyncio.as_completed([echo("a", 3), echo("b", 1), echo("c", 2)])]


async def is_cut() -> Any:
    try:
        async with asyncio.timeout(5):
            await echo("long", 100)
    except TimeoutError:
        return "cut"


async def is_not_cut() -> Any:
    async with asyncio.timeout(5):
        return await echo("short")


async def waits_with_a_limit() -> Any:
    try:
        await asyncio.wait_for(echo("long", 100), 5)
    except TimeoutError:
        return [await asyncio.wait_for(echo("short"), 5), await asyncio.wait_for(echo("unlimited"), None)]


async def signals_an_event() -> Any:
    event, seen = asyncio.Event(), []

    async def listens(name: str) -> None:
        await event.wait()
        seen.append(name)

    async with asyncio.TaskGroup() as group:
        for name in "xyz":
            group.create_task(listens(name))
        await echo("work", 7)
        event.set()
    return seen


async def uses_a_queue() -> Any:
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
    seen = []

    async def produces() -> None:
        for name in "abc":
            await queue.put(await echo(name))
        await queue.put(None)

    async with asyncio.TaskGroup() as group:
        group.create_task(produces())
        while (found := await queue.get()) is not None:
            seen.append(found)
    return seen


async def locks() -> Any:
    lock, seen = asyncio.Lock(), []

    async def alone(name: str) -> None:
        async with lock:
            seen.append(f"{name} in")
            await echo(name)
            seen.append(f"{name} out")

    await asyncio.gather(alone("a"), alone("b"))
    return seen


async def limits_how_many() -> Any:
    places = asyncio.Semaphore(2)

    async def one(name: str) -> str:
        async with places:
            return await echo(name, 10)

    return list(await asyncio.gather(*(one(name) for name in "abcde")))


async def meets_at_a_barrier() -> Any:
    barrier, seen = asyncio.Barrier(2), []

    async def comes(name: str, seconds: float) -> None:
        await echo(name, seconds)
        async with barrier:
            seen.append(name)

    await asyncio.gather(comes("a", 1), comes("b", 5))
    return sorted(seen)


async def waits_for_a_condition() -> Any:
    condition, stock = asyncio.Condition(), 0

    async def fills() -> None:
        nonlocal stock
        for _ in range(3):
            await echo("fill")
            async with condition:
                stock += 1
                condition.notify_all()

    async with asyncio.TaskGroup() as group:
        group.create_task(fills())
        async with condition:
            await condition.wait_for(lambda: stock == 3)
    return stock


async def shields() -> Any:
    task = asyncio.create_task(echo("kept", 10))
    try:
        async with asyncio.timeout(1):
            await asyncio.shield(task)
    except TimeoutError:
        return await task


async def iterates_asynchronously() -> Any:
    async def pages(count: int) -> AsyncGenerator[str, None]:
        for number in range(count):
            yield await echo(f"page {number}")

    async with aclosing(pages(5)) as found:
        return [page async for page in found if page != "page 1"][:3]


async def keeps_context() -> Any:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

    async def greets(who: str) -> str:
        name.set(who)
        await echo(who)
        return name.get()

    return [*await asyncio.gather(greets("ann"), greets("bob")), name.get()]


async def calls_back_in_its_context() -> Any:
    who = contextvars.ContextVar("who", default="nobody")
    loop, seen = asyncio.get_running_loop(), list[str]()
    who.set("ann")
    loop.call_soon(lambda: seen.append(who.get()))
    loop.call_later(1, lambda: seen.append(who.get()))
    who.set("bob")
    await asyncio.sleep(2)
    return seen


async def runs_ordinary_python() -> Any:
    found: dict[str, Any] = {}
    for number, name in enumerate(["a", "b", "c"], start=1):
        try:
            if name == "b":
                continue
            found[name] = f"{await echo(name)}{number:02d}"
        except KeyError:
            found["unreached"] = True
        else:
            found["else"] = number
        finally:
            found["finally"] = number
    while len(found) < 6:
        found[f"loop {len(found)}"] = [await echo(f"{x}{y}") for x in "xy" for y in range(2) if (x, y) != ("x", 1)]
    match found:
        case {"a": first, **rest}:
            return [first, sorted(rest)]


CASES: list[tuple[Callable[[], Any], Any, float]] = [
    (gathers, ["a", "b", "slept"], 3),
    (gathers_with_errors, ["ValueError('bad')", "'good'"], 1),
    (groups, ["a", "b"], 3),
    (groups_that_fail, ["bad"], 1),
    (waits_for_the_first, [["b"], ["a", "c"]], 1),
    (waits_for_all_with_a_timeout, [["b"], ["a"]], 2),
    (takes_them_as_they_complete, ["b", "c", "a"], 3),
    (takes_calls_as_they_complete, ["b", "c", "a"], 3),
    (is_cut, "cut", 5),
    (is_not_cut, "short", 1),
    (waits_with_a_limit, ["short", "unlimited"], 7),
    (signals_an_event, ["x", "y", "z"], 7),
    (uses_a_queue, ["a", "b", "c"], 3),
    (locks, ["a in", "a out", "b in", "b out"], 2),
    (limits_how_many, ["a", "b", "c", "d", "e"], 30),
    (meets_at_a_barrier, ["a", "b"], 5),
    (waits_for_a_condition, 3, 3),
    (shields, "kept", 10),
    (iterates_asynchronously, ["page 0", "page 2", "page 3"], 5),
    (keeps_context, ["ann", "bob", "nobody"], 1),
    (calls_back_in_its_context, ["ann", "ann"], 2),
    (runs_ordinary_python, ["a01", ["c", "else", "finally", "loop 4", "loop 5"]], 8),
]


@pytest.mark.promise("R11")
@pytest.mark.parametrize(("body", "result", "seconds"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_what_asyncio_offers_works_in_a_workflow(body: Callable[[], Any], result: Any, seconds: float) -> None:
    played = Played(body)
    assert played.result == result
    assert played.seconds == seconds
    assert Played(body).story == played.story


def stories() -> str:
    return "\n".join(line for body, _, _ in CASES for line in [body.__name__, *Played(body).story])


def test_the_order_depends_neither_on_hashes_nor_on_where_things_lie_in_memory() -> None:
    script = "from tests.flows.test_loop import stories; ballast = [object() for _ in range({})]; print(stories())"
    told = set()
    for seed in (0, 1, 2):
        finished = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, "-c", script.format(seed * 1000)],
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        told.add(finished.stdout)
    assert len(told) == 1
    assert "takes_calls_as_they_complete" in told.pop()


def test_coroutines_without_an_order_are_refused() -> None:
    async def one() -> str:
        return await echo("one")

    async def body() -> Any:
        return [await call for call in asyncio.as_completed([one()])]

    with pytest.raises(RuntimeError, match=r"give it tasks: as_completed\(\[asyncio.create_task"):
        _ = Played(body).result


def test_all_tasks_which_has_no_order_lists_no_task_of_a_workflow() -> None:
    async def body() -> Any:
        task = asyncio.create_task(echo("one"))
        return [one.get_name() for one in asyncio.all_tasks()] or await task

    assert Played(body).result == "one"


def test_guarded_calls_in_a_workflow_wait_by_durable_timers_and_draw_the_same_jitter() -> None:
    async def body() -> Any:
        tries = 0

        @redrive.retry(attempts=4, backoff=10, jitter="full", deadline=None)
        async def flaky() -> int:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise ConnectionError
            return tries

        return await flaky()

    from redrive.calls.scope import CURRENT, UNOWNED

    def play() -> Played:
        # As a worker does.
        token = CURRENT.set(UNOWNED)
        try:
            return Played(body)
        finally:
            CURRENT.reset(token)

    played = play()
    assert played.result == 4
    assert len(played.story) == 3
    assert 0 < played.seconds <= 10 + 20 + 30
    assert play().story == played.story


@pytest.mark.parametrize(
    "touch",
    [
        lambda: asyncio.open_connection("127.0.0.1", 9),
        lambda: asyncio.to_thread(print),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.start_server(print, "127.0.0.1", 0),
        lambda: asyncio.get_running_loop().sock_recv(None, 1),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_repeated_is_refused(touch: Callable[[], Any]) -> None:
    async def body() -> Any:
        return await touch()

    with pytest.raises(NotInWorkflow, match="move it into an @action and await that"):
        _ = Played(body).result


def test_code_that_is_forgotten_ends_without_a_trace(recwarn: pytest.WarningsRecorder) -> None:
    """Whatever it awaits while it is closed, nothing begins and nothing is complained about."""
    trace: list[str] = []

    async def sub() -> None:
        trace.append("sub")
        await echo("sub")

    async def body() -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await echo("one")
                trace.append("one done")
            finally:
                await asyncio.gather(sub(), sub())
                async with asyncio.TaskGroup() as group:
                    group.create_task(sub())
                await asyncio.wait_for(sub(), 5)
                await asyncio.sleep(0)
                while True:
                    try:
                        await sub()
                    except Exception:
                        trace.append("again")

    played = Played(body)
    assert played.end is None
    assert played.story == []
    assert trace == []
    assert [str(warning.message) for warning in recwarn] == []


def test_code_that_is_forgotten_is_still_in_its_task(recwarn: pytest.WarningsRecorder) -> None:
    """What asyncio does by the current task, such as a time limit, neither fails nor leaves a coroutine behind."""
    tasks: list[Any] = []

    async def sub() -> None:
        await echo("sub")

    async def body() -> Any:
        tasks.append(asyncio.current_task())
        try:
            await asyncio.Event().wait()
        finally:
            tasks.append(asyncio.current_task())
            await asyncio.wait_for(sub(), 5)

    assert Played(body).end is None
    assert tasks[0] is not None
    assert tasks == tasks[:1] * 2
    assert [str(warning.message) for warning in recwarn] == []


async def spins_until_another_task_is_done() -> Any:
    async def work() -> None:
        await asyncio.sleep(60)

    waited_for = asyncio.create_task(work())
    while not waited_for.done():  # noqa: ASYNC110 - what no workflow should do
        await asyncio.sleep(0)


async def spins_by_calling_itself() -> Any:
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_soon(again)

    again()
    await asyncio.sleep(60)


def test_code_that_spins_fails_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.flows.workflows.loop.MOST_CALLBACKS", 10_000)
    line = spins_until_another_task_is_done.__code__.co_firstlineno + 6
    with pytest.raises(FlowSpins, match=rf"spins at test_loop\.py:{line}: .*`await event\.wait\(\)`"):
        _ = Played(spins_until_another_task_is_done).result
    with pytest.raises(FlowSpins, match="spins: "):
        _ = Played(spins_by_calling_itself).result


async def asks_for_very_many() -> Any:
    return len(await asyncio.gather(*(echo(str(number)) for number in range(2_000))))


def test_very_many_actions_at_once_are_no_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fiftieth of what is allowed, for a fiftieth of the actions that must fit into it.
    monkeypatch.setattr("redrive.flows.workflows.loop.MOST_CALLBACKS", 10_000)
    assert Played(asks_for_very_many).result == 2_000
