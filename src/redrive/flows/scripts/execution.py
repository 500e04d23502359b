"""What the compiled code of a script calls: functions, actions, timers, and many calls at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import FrameType
from typing import Any, TypeAlias

from redrive.determinism.clock import current_clock
from redrive.errors import ScriptLimitError
from redrive.expressions.limits import MOST_ELEMENTS, Scope, TooLarge, reachable_size
from redrive.expressions.operations import CONTAINERS, looked_at, made, measured
from redrive.failures.duration import read_duration
from redrive.failures.known_errors.entries import attribute
from redrive.flows.scripts.builtins import BUILTINS, flow_loop
from redrive.flows.scripts.error_values import RAISABLE, catches, error_attribute
from redrive.policies.backoff import LONGEST_WAIT

PLACE = "script "
"""How the note with the position of an error begins."""
CODE_MODULE = f"{__name__}.code"
"""What the compiled code of scripts calls its module."""

Code: TypeAlias = Callable[[Scope], Coroutine[Any, Any, Any]]
MOST_CALLS = 100
"""Calls of functions inside one another."""
_BRANCH_STEPS = 5
"""To begin one of several calls at once."""
_BEGUN_AT_ONCE = 100
"""Calls that begin before the flow's loop has its turn. Replay depends on this number."""
_FAILURE_STEPS = 10
"""To raise a failure and to catch it."""


def step(scope: Scope, count: int) -> None:
    scope.budget.step(count)


async def call_function(scope: Scope, function: Code, arguments: dict[str, Any]) -> Any:
    """The result of a function of the script."""
    if scope.calls >= MOST_CALLS:
        raise RecursionError(f"more than {MOST_CALLS} calls of functions are inside one another")
    inner = Scope(arguments, scope.budget, scope.calls + 1)
    scope.budget.enter(inner)
    try:
        return await function(inner)
    finally:
        scope.budget.leave(inner)


def result(scope: Scope, value: Any) -> Any:
    """What a function returns. What the flow returns leaves the script."""
    return sendable(scope, value) if scope.calls == 1 else value


def sendable(scope: Scope, value: Any) -> Any:
    """The value, checked that it can leave the script as data."""
    size = measured(scope, value)
    scope.budget.work(size.work)
    if type(size.odd_key) is not str:
        raise TypeError(
            f"a dict has the key {size.odd_key!r:.60}, which is not a text; what leaves a script has texts as keys: "
            "write str(key)"
        )
    return value


async def sleep(scope: Scope, duration: Any) -> None:
    if isinstance(duration, str):
        looked_at(scope, duration, 10)
    seconds = read_duration(duration)
    if seconds > LONGEST_WAIT:
        raise ValueError("a sleep takes at most ten years")
    if seconds:
        clock = current_clock()
        await _waited(scope, clock.asleep_until(clock.wall() + seconds))


async def spread(scope: Scope, items: Any, name: str, run: Code) -> list[Any]:
    """One call for each element, all at once; each sees the variables as they are now."""
    if hasattr(items, "__len__"):
        if len(items) > MOST_ELEMENTS:
            raise TooLarge("a spread", MOST_ELEMENTS, "elements")
        scope.budget.step(len(items) * _BRANCH_STEPS)
    outer = Scope(scope, scope.budget, scope.calls, scope.outer)
    # A copy, since the first calls may change the list before the last ones begin.
    return await _at_once(run(Scope({name: one}, scope.budget, scope.calls, outer)) for one in list(items))


async def parallel(scope: Scope, *branches: tuple[str | None, Code]) -> None:
    """All branches at once; each sees the variables as they are now, and assigns its result when it ends."""
    scope.budget.step(len(branches) * _BRANCH_STEPS)
    before = Scope(scope, scope.budget, scope.calls, scope.outer)

    async def assign(name: str | None, run: Code) -> None:
        value = await run(before)
        if name is not None:
            scope[name] = value

    await _at_once(assign(name, run) for name, run in branches)


async def _at_once(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """All results, in order. The first failure cancels the others, and is raised."""
    first: BaseException | None = None
    tasks: list[asyncio.Task[Any]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for one in coroutines:
                tasks.append(group.create_task(one))
                if len(tasks) % _BEGUN_AT_ONCE == 0:
                    # The turn may end here, and go on later.
                    await asyncio.sleep(0)  # noqa: TID251 - on the flow's loop
    except BaseExceptionGroup as failed:
        first = failed.exceptions[0]
    if first is None:
        return [task.result() for task in tasks]
    try:
        raise first
    finally:
        # An error that holds its own frame would live until the garbage collector runs.
        del first, tasks


def caught_by(scope: Scope, types: frozenset[str], error: Exception) -> bool:
    """Whether a handler catches a failure; without types it catches all."""
    scope.budget.step(_FAILURE_STEPS)
    return catches(types, error)


def raised(scope: Scope, name: str, *message: Any) -> Exception:
    """The error that `raise` names."""
    if message and isinstance(message[0], (*CONTAINERS, BaseException)):
        # As text, so that the error does not change with the value.
        message = (BUILTINS["str"].run(scope, message[0]),)
    return RAISABLE[name](*message)


def attribute_of(scope: Scope, error: Any, name: str) -> Any:
    """`error.message` and the like."""
    if isinstance(error, BaseException) and name == "message":
        return BUILTINS["str"].run(scope, error)
    return made(scope, error_attribute(error, name))


def forget(scope: Scope, name: str) -> None:
    """The name of an error ends with its handler, as in Python."""
    scope.pop(name, None)


async def run_action(scope: Scope, site: Any, arguments: dict[str, Any]) -> Any:
    """The result of an action, which counts as held from now on."""
    for value in arguments.values():
        sendable(scope, value)
    action, encoded, policy = site.prepared(arguments)
    value = await _waited(scope, flow_loop().schedule(action, encoded, policy))
    scope.budget.hold(reachable_size([value], scope.budget))
    return value


async def _waited(scope: Scope, awaitable: Awaitable[Any]) -> Any:
    """What a wait gives. Steps are counted anew after it."""
    try:
        value = await awaitable
    except (Exception, asyncio.CancelledError):
        scope.budget.steps = 0
        raise
    except BaseException:
        # The flow is being discarded, and no `finally` of the script may go on.
        scope.budget.exhaust()
        raise
    scope.budget.steps = 0
    return value


def script_place(frame: FrameType) -> str:
    """Where in a script a frame of Python is, such as "script order, line 3"; empty outside scripts."""
    if frame.f_globals.get("__name__") != CODE_MODULE:
        return ""
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def note_place(error: BaseException, file: str) -> None:
    """Note on an error where in the script it was raised: the innermost line."""
    place, trace = file, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            place = f"{file}, line {trace.tb_lineno}"
        trace = trace.tb_next
    try:
        if isinstance(error, ScriptLimitError):
            error.args = (f"{place}: {error}",)
            return
        notes = attribute(error, "__notes__") or []
        if place not in notes:
            # Not through the class's own __setattr__: frozen dataclasses refuse.
            object.__setattr__(error, "__notes__", [*notes, place])
    except Exception:  # noqa: BLE001 - whatever a strange class does, the error itself matters more than its place
        return
