"""An event loop without I/O: it runs a flow's code the same way every time, and its time is the log's.

`asyncio.gather`, `TaskGroup`, `sleep`, `timeout`, `wait_for`, `Event`, `Queue` and the rest of what needs only tasks,
futures and timers work on it. Timers do not run by themselves: they are asked for, and the engine logs them.
"""

import asyncio
import logging
import math
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType, FrameType
from typing import Any, NoReturn

import msgspec

from redrive.determinism.clock import put_clock
from redrive.determinism.dice import Dice, put_dice
from redrive.determinism.event_loops import OUTER
from redrive.failures.traces import trace_of
from redrive.flows.asks import Ask, CancelAsk, ItemAsk, PatchAsk, TimerAsk
from redrive.flows.failed_item import as_exception
from redrive.flows.flow_clock import FlowClock
from redrive.flows.loop_errors import FlowSpins, NoOrder, NotInWorkflow
from redrive.flows.values import Arguments
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.policy import Policy

# Code that is forgotten and awaits more than this is left where it stands.
MOST_AWAITED = 1000
# Callbacks that one turn may take: a hundred thousand actions at once need less, code that spins needs more.
MOST_CALLBACKS = 500_000
# So many tasks that have ended may lie among the others before they are cleared away.
_FEW = 64


class FlowFuture(asyncio.Future[Any]):
    """A future whose place in a set does not depend on where it lies in memory."""

    __slots__ = ("ask", "order")

    # Both are set by the loop that makes it: there is one for each step, and an __init__ would cost more than the rest.
    ask: ItemAsk | None
    """The item it stands for."""
    order: int

    def __hash__(self) -> int:
        return self.order

    def __eq__(self, other: object) -> bool:
        return self is other

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.ask is not None:
            loop = self.get_loop()
            assert isinstance(loop, FlowLoop)  # noqa: S101 - narrows for mypy
            loop.asks.append(CancelAsk(self.ask))
            loop.flow.forget_item(self.ask)
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
    """A callback that is to run in this turn."""

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


# All that a loop can do but run tasks is I/O, signals, threads or running the loop itself.
_WithoutIO: Any = type(
    "_WithoutIO",
    (asyncio.AbstractEventLoop,),
    {name: _refuse(name) for name in asyncio.AbstractEventLoop.__dict__ if not name.startswith("_")},
)


class FlowLoop(_WithoutIO):  # type: ignore[misc]  # made above from what asyncio names
    """Runs one flow's code in turns; between turns nothing of it runs."""

    def __init__(self, seed: int, dice: Dice) -> None:
        """`seed` is the flow's own number: tasks of different flows meet in the sets that asyncio keeps."""
        self.now = 0.0
        """Epoch seconds of the event that the current turn answers."""
        self.asks: list[Ask] = []
        """What was asked for in this turn."""
        self.trouble: Exception | None = None
        """What a callback raised that no task took."""
        self.replaying = False
        self.anew = False
        """While replaying: the code may do other things than it did."""
        self.logged_patches: set[str] = set()
        """What `patched()` was true for when this flow ran before."""
        self.tasks: list[FlowTask] = []
        self.flow: Any = None
        """Whose loop it is."""
        self._closed = False
        self._most_tasks = _FEW
        self._patches: dict[str, bool] = {}
        self._ready: deque[_Soon | TimerAsk] = deque()
        self._order = seed << 16
        self._end = self._end_generator
        self.context = copy_context()
        # Guarded calls in a flow's code read the log's time and draw repeatable jitter.
        self.context.run(_put_in_place, FlowClock(self), dice)

    def turn(self) -> None:
        """Run until nothing is ready."""
        ready = self._ready
        before = self._enter()
        try:
            for _ in range(MOST_CALLBACKS):
                if not ready:
                    break
                call = ready.popleft()
                if call.is_cancelled:
                    continue
                try:
                    call.context.run(call.callback, *call.args)
                except SystemExit:
                    # The task that raised it keeps it: the flow ends, not its worker.
                    continue
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - kept for whoever gave the turn
                    self.trouble = self.trouble or as_exception(error, "a callback")
            if ready:
                self.trouble = FlowSpins(MOST_CALLBACKS, _place_of(ready))
                ready.clear()
        finally:
            self._leave(*before)

    def _enter(self) -> tuple[Any, Any]:
        outer = asyncio._get_running_loop()
        before = outer, None if _step_out is None else _step_out(outer)
        if outer is not OUTER.loop:
            OUTER.loop, OUTER.hooks = outer, sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        OUTER.inside = self
        # The outer loop must not end the flow's generators: what they do in `finally` belongs to the flow.
        sys.set_asyncgen_hooks(None, self._end)
        return before

    def _leave(self, outer: Any, task: Any) -> None:
        sys.set_asyncgen_hooks(*OUTER.hooks)
        OUTER.inside = outer if isinstance(outer, FlowLoop) else None
        asyncio._set_running_loop(outer)
        if task is not None:
            _step_in(outer, task)

    def _end_generator(self, generator: Any) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    def fire(self, timer: TimerAsk) -> None:
        if not timer.is_cancelled:
            self._ready.append(timer)

    def schedule(self, step: str, arguments: Arguments, policy: Policy) -> FlowFuture:
        """Ask for an action; the future brings its outcome."""
        future = self.create_future()
        where = self._where() if self.replaying else ""
        ask = ItemAsk(step, arguments.encoded, arguments.take_values(), policy, future, where)
        future.ask = ask
        self.asks.append(ask)
        return future

    def patched(self, name: str) -> bool:
        known = self._patches.get(name)
        if known is None:
            known = self._patches[name] = not self.replaying or self.anew or name in self.logged_patches
            if known:
                self.asks.append(PatchAsk(name, self._where()))
        return known

    def discard(self) -> None:
        """Forget the flow's code where it stands. What it would still do in `finally` reaches nobody."""
        self._closed = True
        pending = [task for task in self.tasks if not task.done()]
        if pending:
            before = self._enter()
            for task in pending:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio itself sets for it
                # Without a current task asyncio.timeout() and the like would fail and leave what they were given.
                asyncio.tasks._enter_task(self, task)
                self.context.run(_forget, task.get_coro())
                asyncio.tasks._leave_task(self, task)
            self._leave(*before)
        self.tasks.clear()
        self._ready.clear()

    def _where(self) -> str:
        """Where the flow's code is, noted during replay: the nearest line that is neither redrive's nor asyncio's."""
        if not self.replaying:
            return ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not FlowLoop.turn.__code__:
            if not is_ours(frame):
                return _line(frame)
            frame = frame.f_back
        # In a task that has no code of the flow's own: where `run` awaits.
        return _awaiting(self.tasks[0].get_coro()) if self.tasks else ""

    def _next(self) -> int:
        self._order += 1
        return self._order

    # What asyncio asks of a loop

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        call = _Soon(callback, args, context if context is not None else copy_context())
        self._ready.append(call)
        return call

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        if math.isnan(when):
            raise ValueError("a timer needs a time: NaN is none")
        where = self._where()
        # Who waits for ever waits for as long as anything does; the log and the stores know no later time.
        when = min(when, self.now + LONGEST_WAIT)
        ask = TimerAsk(when, callback, args, context if context is not None else copy_context(), where)
        self.asks.append(ask)
        return ask

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def time(self) -> float:
        return self.now

    def create_future(self) -> FlowFuture:
        self._order += 1
        future = FlowFuture(loop=self)
        future.order, future.ask = self._order, None
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
            # It is being forgotten, and nothing new begins.
            coroutine.close()
            return self.create_future()
        if type(coroutine) is CoroutineType and _in_as_completed():
            coroutine.close()
            instead = "give it tasks: as_completed([asyncio.create_task(...), ...])"
            raise NoOrder("as_completed() of coroutines", instead)
        task = FlowTask(coroutine, self, self._next(), name, context)
        self.tasks.append(task)
        if len(self.tasks) > self._most_tasks:
            self.tasks = [one for one in self.tasks if not one.done()]
            # In proportion: to look at all of them again and again would take the square of their number.
            self._most_tasks = 2 * len(self.tasks) + _FEW
        return task

    # False, without a frame of its own: asyncio asks at each future.
    get_debug = staticmethod(bool)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self._closed and isinstance(error, Exception):
            about = context.get("message", "a task of a flow failed")
            logging.getLogger("redrive").error("flow %s: %s\n%s", self.flow.id, about, trace_of(error))


def running_flow_loop() -> FlowLoop | None:
    # Not asyncio's own answer, which is a system call on some versions.
    loop: FlowLoop | None = OUTER.inside
    return loop


def _line(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _awaiting(coroutine: Any) -> str:
    """The line of the flow's own code at which a coroutine awaits."""
    line = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        line = line if is_ours(frame) else _line(frame)
        coroutine = getattr(coroutine, "cr_await", None)
    return line


def _place_of(ready: "deque[_Soon | TimerAsk]") -> str:
    """Where one of the tasks that are to go on stands."""
    tasks = (getattr(call.callback, "__self__", None) for call in ready)
    return next((_awaiting(task.get_coro()) for task in tasks if isinstance(task, FlowTask)), "")


def is_ours(frame: FrameType) -> bool:
    """Whether it is redrive's or asyncio's, and not of the flow's code."""
    return str(frame.f_globals.get("__name__", "")).startswith(("redrive.", "asyncio."))


def _put_in_place(clock: FlowClock, dice: Dice) -> None:
    put_clock(clock)
    put_dice(dice)


def _in_as_completed() -> bool:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(4):
        if frame is None or not is_ours(frame):
            return False
        if "as_completed" in frame.f_code.co_qualname or "AsCompleted" in frame.f_code.co_qualname:
            return True
        frame = frame.f_back
    return False


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


class _Forgotten(BaseException):
    """Ends code that is no longer needed. Unlike GeneratorExit it lets what is awaited end first."""


def _forget(coroutine: Any) -> None:
    """End a coroutine: whatever its `finally` awaits never comes. Left alone, it would be ended at any time."""
    for _ in range(MOST_AWAITED):
        try:
            coroutine.throw(_Forgotten())
        except BaseException:  # noqa: BLE001 - it ended, with whatever error
            return


if sys.version_info >= (3, 12):

    def _step_out(loop: Any) -> Any:
        """A task that gives a flow its turn must not look like the flow's current task."""
        # A timer's callback has no task; some versions fail to take away what is not there.
        if loop is None or asyncio.current_task(loop) is None:
            return None
        return asyncio.tasks._swap_current_task(loop, None)

    def _step_in(loop: Any, task: Any) -> None:
        asyncio.tasks._swap_current_task(loop, task)
else:
    _step_out: Any = None
    _step_in: Any = None
