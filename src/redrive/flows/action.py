"""`@action`: a Python function whose calls in flows are work items."""

import asyncio
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from redrive.determinism.event_loops import OUTER
from redrive.flows.dependency_name import dependency_name
from redrive.flows.registry import ACTION, Registry
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.stored_policy import DURABLE_DEFAULT, write_stored_policy
from redrive.flows.values.signature import Arguments, Signature
from redrive.flows.workflows.loop import FlowLoop, running_flow_loop
from redrive.near_names import unknown_setting
from redrive.policies.policy import Policy

P = ParamSpec("P")
T = TypeVar("T")

Executor = Literal["loop", "thread", "process"]
"""Where an attempt runs: coroutines in the worker's event loop, plain functions in a thread, or in a process."""


class Action(Generic[P, T]):
    """A function whose calls are durable in a workflow; awaited elsewhere, a call runs the function directly."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        policy: Policy,
        executor: Executor,
        dependency: str | None = None,
    ) -> None:
        """dependency: what its calls talk to, unless a call says otherwise."""
        self.function = function
        self.name = name
        self.policy = policy
        self.executor: Executor = executor
        self.dependency = dependency
        self.signature = Signature(function, f"action {name}")
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "ActionCall[T]":
        frame = sys._getframe(1)
        return ActionCall(self, self.signature.bind(args, kwargs), (frame.f_code.co_filename, frame.f_lineno))

    def __repr__(self) -> str:
        return f"<action {self.name}>"


ACTIONS: Registry[Action[Any, Any]] = Registry(ACTION)
action_named = ACTIONS.named


def register_action(action: Action[Any, Any]) -> None:
    ACTIONS.add_python(action.name, action, action.function)


def check_name_is_free(action: Action[Any, Any]) -> None:
    """Raise ValueError when the action's name belongs to other code."""
    ACTIONS.check_name_is_free(action.name, action.function)


def known_actions() -> dict[str, Action[Any, Any]]:
    return dict(ACTIONS.by_name)


def unknown_actions(names: Iterable[str]) -> list[str]:
    """Those of the names that no action of this process has."""
    return sorted(name for name in names if name not in ACTIONS.by_name)


class ActionCall(Coroutine[Any, Any, T]):
    """An action with its arguments. Await it, or pass it to `run_action`, `gather`, a TaskGroup or `app.submit`."""

    __slots__ = ("_action", "_arguments", "_coroutine", "_loop", "_made_at", "_order")

    def __init__(self, action: Action[..., T], arguments: Arguments, made_at: tuple[str, int] | None = None) -> None:
        self._action = action
        self._arguments = arguments
        self._made_at = made_at
        """The file and line of the call, until it is used."""
        self._loop: FlowLoop | None = OUTER.inside
        self._coroutine: Coroutine[Any, Any, T] | None = None
        self._order: int | None = None
        """Its hash, once it has one."""

    # Whoever reads one of these is about to run the call, or to refuse it.

    @property
    def action(self) -> Action[..., T]:
        self._made_at = None
        return self._action

    @property
    def arguments(self) -> Arguments:
        self._made_at = None
        return self._arguments

    def __del__(self) -> None:
        if self._made_at is not None and not (self._loop is not None and self._loop.is_closed()):
            _report_unawaited(self._action.name, *self._made_at, in_a_flow=self._loop is not None)

    def __await__(self) -> Generator[Any, Any, T]:
        loop = running_flow_loop()
        if loop is not None:
            action = self.action
            return loop.schedule(action.name, self._arguments, action.policy).__await__()
        return self._started().__await__()

    def send(self, value: Any) -> Any:
        return self._started().send(value)

    def throw(self, *error: Any) -> Any:
        return self._started().throw(*error)

    def close(self) -> None:
        self._made_at = None
        if self._coroutine is not None:
            self._coroutine.close()

    def _started(self) -> Coroutine[Any, Any, T]:
        self._made_at = None
        if self._coroutine is None:
            self._coroutine = call_action(self, self.action.policy)
        return self._coroutine

    def __hash__(self) -> int:
        # asyncio puts awaitables into sets, whose order must be the same on every replay: so no address counts in a
        # flow. Nor does the content, since a set of equal calls would compare each with all others.
        if self._order is None:
            self._order = object.__hash__(self) if self._loop is None else self._loop.next_order()
        return self._order

    def __repr__(self) -> str:
        return f"<call of action {self._action.name}>"


# The registry in which Python's warning filters keep what they have shown already.
_warned: dict[Any, Any] = {}
_listeners: list[Callable[[str], None]] = []


def listen_for_unawaited_calls(listener: Callable[[str], None]) -> Callable[[], None]:
    """Report calls in workflows that were never awaited to the listener instead of as warnings.

    Returns a function that ends this.
    """
    _listeners.append(listener)
    return functools.partial(_listeners.remove, listener)


def _report_unawaited(name: str, file: str, line: int, in_a_flow: bool) -> None:
    what = "the step is skipped" if in_a_flow else "it did not run"
    message = f"the call of action {name} was never awaited, so {what}: write `await {name}(...)`"
    if in_a_flow and _listeners:
        for listener in _listeners:
            listener(f"{os.path.basename(file)}:{line}: {message}")
    else:
        warnings.warn_explicit(message, RuntimeWarning, file, line, registry=_warned)


async def call_action(call: ActionCall[T], policy: Policy) -> T:
    """Run the call as a work item in a workflow, and as a plain function call anywhere else."""
    loop = running_flow_loop()
    if loop is not None:
        return cast("T", await loop.schedule(call.action.name, call.arguments, policy))
    action, arguments = call.action, call.arguments
    values = arguments.take_values()
    if values is None:
        values = action.signature.read_arguments(arguments.encoded)
    if inspect.iscoroutinefunction(action.function):
        return cast("T", await action.signature.call_with(action.function, values))
    work = functools.partial(action.signature.call_with, action.function, values)
    return cast("T", await asyncio.to_thread(work))


@overload
def action(function: Callable[P, Coroutine[Any, Any, T]], /) -> Action[P, T]: ...
@overload
def action(function: Callable[P, T], /) -> Action[P, T]: ...
@overload
def action(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Timeout | None = None,
    process: bool = False,
    dependency: str | None = None,
) -> "_ActionDecorator": ...


def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Timeout | None = None,
    process: bool = False,
    dependency: str | None = None,
    **unknown: Any,
) -> Any:
    """Make a function an action. Arguments and results are stored as JSON, encoded by their type hints.

    name: the name in flows and logs; by default the function's name.
    retry, timeout: the default policy of its calls, which `run_action` can override.
    process: run each attempt in a process of its own, which a timeout can kill; a coroutine gets an event loop there.
    By default, plain functions run in a thread and coroutines in the worker's event loop.
    dependency: the name of what it talks to. While that is down, calls wait instead of spending attempts.
    """
    if unknown:
        raise unknown_setting("@action", unknown, ("name", "retry", "timeout", "process", "dependency"))

    def decorate(function: Callable[..., Any]) -> Action[Any, Any]:
        if not callable(function) or isinstance(function, type | Action):
            raise TypeError(f"@action needs a function, not {function!r}")
        if _is_method(function):
            raise TypeError(
                f"@action on the method {function.__qualname__}: a method cannot be an action, because a worker has no "
                "object to call it on; make it a module-level function, and pass what it needs as arguments"
            )
        is_async = inspect.iscoroutinefunction(function)
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"@action on the generator {function.__name__}: return a list instead of yielding")
        policy = as_policy(DURABLE_DEFAULT if retry is None else retry, timeout)
        write_stored_policy(policy)
        talks_to = None if dependency is None else dependency_name(dependency)
        executor: Executor = "process" if process else "loop" if is_async else "thread"
        made: Action[Any, Any] = Action(function, name or function.__name__, policy, executor, talks_to)
        register_action(made)
        return made

    return decorate if function is None else decorate(function)


def _is_method(function: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(function).parameters), "")
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return first in ("self", "cls") and owner != "" and not owner.endswith("<locals>")


class _ActionDecorator:
    """The type of `@action(...)` with settings; never instantiated."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Action[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Action[P, T]: ...
    def __call__(self, function: Any, /) -> Any: ...
