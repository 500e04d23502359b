"""A deterministic event loop without I/O: it runs a flow's code the same way every time, and its clock is the log.

`asyncio.gather`, `TaskGroup`, `sleep`, `timeout`, `wait_for`, `Event`, `Queue` and whatever else needs only tasks,
futures and timers work on it. A timer is a command: the engine logs it and fires it.
"""

import asyncio
import logging
import math
import sys
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType, FrameType
from typing import Any, NoReturn

import msgspec

from redrive.determinism.clock import put_clock
from redrive.determinism.dice import Dice, Random, put_dice, seeded_dice, seeded_random
from redrive.determinism.event_loops import OUTER
from redrive.failures.traces import trace_of
from redrive.flows.commands import CancelItem, Command, MarkPatch, ScheduleItem, StartTimer
from redrive.flows.errors.item_error import as_exception
from redrive.flows.values.signature import Arguments, Signature
from redrive.flows.workflows.clock import FlowClock
from redrive.flows.workflows.closing import close
from redrive.flows.workflows.conditions import Conditions
from redrive.flows.workflows.loop_errors import FlowSpins, NoOrder, NotInWorkflow
from redrive.flows.workflows.source_lines import awaiting_line, called_by_as_completed, is_library_frame, line_of
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.policy import Policy
from redrive.telemetry.logs import log_flow

# Callbacks that run at once; then other flows have their turn, and the log says where this one went on. Replay depends
# on this number.
CALLBACKS_AT_ONCE = 400
# Callbacks in one turn: a hundred thousand concurrent actions need fewer, code that spins needs more.
MOST_CALLBACKS = 500_000
# Finished tasks that are kept before they are swept out.
_FEW = 64


class FlowFuture(asyncio.Future[Any]):
    """A future whose hash is its creation order, so that sets of futures iterate in the same order on every replay."""

    __slots__ = ("command", "order")

    # Both are set by `create_future`: each step makes a future, and an __init__ would cost more than all the rest.
    command: ScheduleItem | None
    """The item whose outcome it carries."""
    order: int

    def __hash__(self) -> int:
        return self.order

    def __eq__(self, other: object) -> bool:
        return self is other

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.command is not None:
            loop = self.get_loop()
            assert isinstance(loop, FlowLoop)  # noqa: S101 - narrows for mypy
            loop.commands.append(CancelItem(self.command))
            loop.awaited_items.pop(self.command.item, None)
        return cancelled


class FlowTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, coroutine: Any, loop: "FlowLoop", order: int, name: object, context: Context | None) -> None:
        # Before all else: asyncio keeps its tasks in a set.
        self.order = order
        # asyncio would name it by the count of tasks in this process.
        super().__init__(coroutine, loop=loop, name=str(name or f"flow-task-{order & 0xFFFF}"), context=context)
        # asyncio.all_tasks() would list it in the order of a set that also holds the tasks of other flows.
        asyncio.tasks._unregister_task(self)

    def __hash__(self) -> int:
        return self.order

    def __eq__(self, other: object) -> bool:
        return self is other


class _Soon(msgspec.Struct, eq=False):
    """A callback that runs in this turn."""

    callback: Callable[..., Any]
    args: Any
    context: Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


def _refuse(name: str) -> Any:
    threads = name in ("run_in_executor", "call_soon_threadsafe", "set_default_executor")
    what = f"a thread ({name})" if threads else f"the network, files or processes ({name})"

    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotInWorkflow(what)

    return refused


# Whatever else a loop offers is I/O, signals, threads, or running the loop itself.
_WithoutIO: Any = type(
    "_WithoutIO",
    (asyncio.AbstractEventLoop,),
    {name: _refuse(name) for name in asyncio.AbstractEventLoop.__dict__ if not name.startswith("_")},
)


class FlowLoop(_WithoutIO):  # type: ignore[misc]  # made above from the names in asyncio
    """Runs one flow's code in turns; between turns none of it runs."""

    def __init__(self, flow_id: str, seed: str = "", signature: Signature | None = None) -> None:
        self.flow_id = flow_id
        self.signature = signature
        self._seed = seed or flow_id
        self.now = 0.0
        """Epoch seconds of the event that the current turn handles."""
        self.commands: list[Command] = []
        """The commands of the current turn."""
        self.awaited_items: dict[int, ScheduleItem] = {}
        """The items that the code awaits, by their number in the log."""
        self.trouble: Exception | None = None
        """What a callback raised outside of any task."""
        self.replaying = False
        self.anew = False
        """While replaying: the code may issue other commands than those in the log."""
        self.logged_patches: set[str] = set()
        """The patches that are marked in the log."""
        self.tasks: list[FlowTask] = []
        self.conditions = Conditions()
        self._closed = False
        self._callbacks = 0
        """Those that ran in this turn before its current piece."""
        self._most_tasks = _FEW
        self._patches: dict[str, bool] = {}
        self._ready: deque[_Soon | StartTimer] = deque()
        # Tasks of different flows meet in the sets that asyncio keeps, so each flow has its own range.
        self._order = zlib.crc32(flow_id.encode()) << 16
        self._end = self._end_generator
        self._random: Random | None = None
        self._seeded_dice: Dice | None = None
        self.context = copy_context()
        # Guarded calls in a flow's code read the log's time and draw repeatable jitter.
        self.context.run(_install, FlowClock(self), self._dice)

    @property
    def random(self) -> Random:
        """A generator that draws the same numbers on every replay."""
        if self._random is None:
            self._random = seeded_random(self._seed)
        return self._random

    def _dice(self) -> float:
        # Seeded on first use: few flows need it, and seeding costs more than a step.
        if self._seeded_dice is None:
            self._seeded_dice = seeded_dice(self._seed)
        return self._seeded_dice()

    def turn(self) -> bool:
        """Run what is ready, in pieces; True when more is ready, which the next call runs."""
        ready = self._ready
        before = self._enter()
        try:
            for _ in range(CALLBACKS_AT_ONCE):
                if not ready:
                    if self.conditions:
                        self.conditions.fire()
                    if not ready:
                        break
                call = ready.popleft()
                if call.is_cancelled:
                    continue
                try:
                    call.context.run(call.callback, *call.args)
                except SystemExit:
                    # The task that raised it also keeps it: the flow ends, not the worker.
                    continue
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - the driver fails the flow with it
                    self.trouble = self.trouble or as_exception(error, "a callback")
            self._callbacks = self._callbacks + CALLBACKS_AT_ONCE if ready else 0
            if self._callbacks >= MOST_CALLBACKS:
                self.trouble = FlowSpins(MOST_CALLBACKS, _line_of_ready_task(ready))
                ready.clear()
            return bool(ready)
        finally:
            self._leave(*before)

    def _enter(self) -> tuple[Any, Any]:
        outer = asyncio._get_running_loop()
        before = outer, None if _step_out is None else _step_out(outer)
        if outer is not OUTER.loop:
            OUTER.loop, OUTER.hooks = outer, sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        OUTER.inside = self
        # The outer loop must not close the flow's async generators: their `finally` blocks belong to the flow.
        sys.set_asyncgen_hooks(None, self._end)
        return before

    def _leave(self, outer: Any, task: Any) -> None:
        sys.set_asyncgen_hooks(*OUTER.hooks)
        OUTER.inside = outer if isinstance(outer, FlowLoop) else None
        asyncio._set_running_loop(outer)
        if task is not None:
            _step_in(outer, task)

    def read(self, function: Callable[[], Any]) -> tuple[Any, bool]:
        """Call a function between turns; return its answer, and whether it started anything, which is dropped."""
        before, commands, ready = self._enter(), len(self.commands), len(self._ready)
        try:
            answer = self.context.run(function)
            return answer, len(self.commands) > commands or len(self._ready) > ready
        finally:
            self._leave(*before)
            del self.commands[commands:]
            while len(self._ready) > ready:
                self._ready.pop()

    def _end_generator(self, generator: Any) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    def fire(self, timer: StartTimer) -> None:
        if not timer.is_cancelled:
            self._ready.append(timer)

    def schedule(self, step: str, arguments: Arguments, policy: Policy, dependency: str = "") -> FlowFuture:
        """Schedule an action; the future carries its outcome."""
        future = self.create_future()
        where = self.where() if self.replaying else ""
        command = future.command = ScheduleItem(
            step, arguments.encoded, arguments.take_values(), policy, future, where, dependency=dependency
        )
        self.commands.append(command)
        return future

    def patched(self, name: str) -> bool:
        known = self._patches.get(name)
        if known is None:
            known = self._patches[name] = not self.replaying or self.anew or name in self.logged_patches
            if known:
                self.commands.append(MarkPatch(name, self.where()))
        return known

    def discard(self) -> None:
        """Close the flow's coroutines where they are suspended; commands from their `finally` blocks are dropped."""
        self._closed = True
        pending = [task for task in self.tasks if not task.done()]
        if pending:
            before = self._enter()
            for task in pending:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio itself sets for it
                # Without a current task, asyncio.timeout() and the like would fail instead of closing.
                asyncio.tasks._enter_task(self, task)
                self.context.run(close, task.get_coro())
                asyncio.tasks._leave_task(self, task)
            self._leave(*before)
        self.tasks.clear()
        self._ready.clear()

    def where(self) -> str:
        """The line of the flow's code that is running; known only during replay."""
        if not self.replaying:
            return ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not FlowLoop.turn.__code__:
            if not is_library_frame(frame):
                return line_of(frame)
            frame = frame.f_back
        # A task without any code of the flow's own, as in gather(): report where `run` awaits.
        return awaiting_line(self.tasks[0].get_coro()) if self.tasks else ""

    def next_order(self) -> int:
        """A number that no other call, future or task of the flow has, and that is the same on every replay."""
        self._order += 1
        return self._order

    # What asyncio needs from a loop

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        call = _Soon(callback, args, context if context is not None else copy_context())
        self._ready.append(call)
        return call

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        if math.isnan(when):
            raise ValueError("NaN is not a valid time for a timer; use epoch seconds")
        where = self.where()
        # Stores hold no later time, so an endless wait is this long.
        when = min(when, self.now + LONGEST_WAIT)
        command = StartTimer(when, callback, args, context if context is not None else copy_context(), where)
        self.commands.append(command)
        return command

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def time(self) -> float:
        return self.now

    def create_future(self) -> FlowFuture:
        self._order += 1
        future = FlowFuture(loop=self)
        future.order, future.command = self._order, None
        return future

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any] | Awaitable[Any],
        *,
        name: object = None,
        context: Context | None = None,
        **_: Any,
    ) -> Any:
        coroutine: Any = coro if asyncio.iscoroutine(coro) else _as_coroutine(coro)
        if self._closed:
            # The loop is being discarded: nothing new starts.
            coroutine.close()
            return self.create_future()
        if type(coroutine) is CoroutineType and called_by_as_completed():
            coroutine.close()
            instead = "give it tasks: as_completed([asyncio.create_task(...), ...])"
            raise NoOrder("as_completed() of coroutines", instead)
        task = FlowTask(coroutine, self, self.next_order(), name, context)
        self.tasks.append(task)
        if len(self.tasks) > self._most_tasks:
            self.tasks = [one for one in self.tasks if not one.done()]
            # The limit grows with the number of tasks, so that sweeping stays linear.
            self._most_tasks = 2 * len(self.tasks) + _FEW
        return task

    # These return False and None without a Python frame: asyncio calls the first for each future, anyio the second.
    get_debug = staticmethod(bool)
    get_task_factory: Any = staticmethod(type(None))

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self._closed and isinstance(error, Exception):
            about = context.get("message", "a task of a flow failed")
            log_flow(logging.ERROR, self.flow_id, "%s\n%s", about, trace_of(error))


def running_flow_loop() -> FlowLoop | None:
    # asyncio.get_running_loop() makes a system call on some versions.
    loop: FlowLoop | None = OUTER.inside
    return loop


def _line_of_ready_task(ready: "deque[_Soon | StartTimer]") -> str:
    tasks = (getattr(call.callback, "__self__", None) for call in ready)
    return next((awaiting_line(task.get_coro()) for task in tasks if isinstance(task, FlowTask)), "")


def _install(clock: FlowClock, dice: Dice) -> None:
    put_clock(clock)
    put_dice(dice)


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


if sys.version_info >= (3, 12):

    def _step_out(loop: Any) -> Any:
        """Unset the current task, which belongs to the worker; to the flow it would look like its own."""
        # A timer's callback has no current task, and some versions cannot unset what is not set.
        if loop is None or asyncio.current_task(loop) is None:
            return None
        return asyncio.tasks._swap_current_task(loop, None)

    def _step_in(loop: Any, task: Any) -> None:
        asyncio.tasks._swap_current_task(loop, task)
else:
    _step_out: Any = None
    _step_in: Any = None
