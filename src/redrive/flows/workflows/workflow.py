"""`Workflow` and `@workflow`: ordinary Python code whose steps are durable."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, NoReturn, ParamSpec, Protocol, TypeVar, cast, overload

from redrive.determinism.dice import Random
from redrive.determinism.ids import UUID
from redrive.failures.duration import read_duration
from redrive.flows.action import ActionCall, call_action
from redrive.flows.dependency_name import dependency_name
from redrive.flows.flow_call import FlowCall
from redrive.flows.message_events import SignalWait
from redrive.flows.registry import WORKFLOW, Registry
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.stored_policy import write_stored_policy
from redrive.flows.values.signature import Signature
from redrive.flows.workflows.children import ChildHandle, ParentClose, start_child
from redrive.flows.workflows.handlers import Handlers, check_name, handlers_of
from redrive.flows.workflows.loop import FlowLoop, running_flow_loop
from redrive.flows.workflows.run_ends import RunEnds
from redrive.flows.workflows.source_lines import calling_line

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound="type[Workflow]")


class _Runs(Protocol[P, T_co]):
    """A class with a coroutine method `run`, whose parameters and result type `call` takes over."""

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class Workflow:
    """Write `async def run(self, ...)`, decorate the class with `@workflow`, and `app.start(Billing.call(...))` it.

    `run` is ordinary Python code, but its side effects belong in actions. After a crash it is replayed from its log and
    continues where it stopped.
    """

    workflow_name: ClassVar[str]
    signature: ClassVar[Signature]
    pinned: ClassVar[bool] = False
    """Whether its flows stay with workers of the version that began them."""
    handlers: ClassVar[Handlers]

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs `async def run(self, ...)`")

    @classmethod
    def call(cls: type[_Runs[P, T]], *args: P.args, **kwargs: P.kwargs) -> FlowCall[T]:
        """The workflow with the arguments of `run`, ready to be started."""
        workflow = cast("type[Workflow]", cls)
        if not hasattr(workflow, "workflow_name"):
            raise TypeError(f"{cls.__name__} is not a workflow yet; decorate it with @workflow")
        return FlowCall("workflow", workflow, workflow.signature.bind(args, kwargs))

    async def run_action(
        self,
        call: ActionCall[T],
        *,
        retry: Retry | None = None,
        timeout: Timeout | None = None,
        dependency: str | None = None,
    ) -> T:
        """Run an action: `await self.run_action(charge(user=user), retry=RetryPolicy(attempts=3))`.

        retry: a RetryPolicy, a Policy, policy text, or a list of policies, of which the first that matches a failure
        decides (a policy in a list cannot set what spans all attempts, such as a deadline). By default, the action's.
        timeout: the time limit of one attempt: seconds, a timedelta, or text such as "2m".
        dependency: the name of what this call talks to. By default, the action's.
        """
        if not isinstance(call, ActionCall):
            raise TypeError(f"run_action takes the call of an @action, such as charge(user=user), not {call!r}")
        action = call.action
        policy = action.policy
        if retry is not None or timeout is not None:
            policy = as_policy(policy if retry is None else retry, timeout)
            write_stored_policy(policy)
        talks_to = "" if dependency is None else dependency_name(dependency)
        loop = running_flow_loop()
        if loop is None:
            return await call_action(call, policy)
        result: T = await loop.schedule(action.name, call.arguments, policy, talks_to)
        return result


WORKFLOWS: Registry[type[Workflow]] = Registry(WORKFLOW)
workflow_named = WORKFLOWS.named


class WorkflowDecorator:
    """`@workflow` makes a class a workflow; `workflow.now()` and the like are for the code of its `run` method."""

    @overload
    def __call__(self, cls: W, /) -> W: ...
    @overload
    def __call__(self, cls: None = None, /, *, name: str | None = None, pinned: bool = False) -> Callable[[W], W]: ...
    def __call__(self, cls: Any = None, /, *, name: str | None = None, pinned: bool = False) -> Any:
        def decorate(cls: Any) -> Any:
            if not (isinstance(cls, type) and issubclass(cls, Workflow)):
                raise TypeError(f"@workflow needs a class derived from Workflow, not {cls!r}")
            _check(cls)
            cls.workflow_name = name or cls.__name__
            cls.pinned = pinned
            cls.handlers = handlers_of(cls)
            cls.signature = Signature(cls.run, f"workflow {cls.workflow_name}", method=True)
            WORKFLOWS.add_python(cls.workflow_name, cls, cls)
            return cls

        return decorate if cls is None else decorate(cls)

    def now(self) -> datetime:
        """The current time, which is the same when the code is replayed."""
        return datetime.fromtimestamp(_loop("now").now, UTC)

    def random(self) -> Random:
        """A random generator that draws the same numbers when the code is replayed."""
        return _loop("random").random

    def uuid(self) -> UUID:
        """A new id, which is the same when the code is replayed."""
        return UUID(int=_loop("uuid").random.getrandbits(128), version=4)

    def patched(self, patch: str) -> bool:
        """True for flows that first reach this line with the changed code, false for those that passed it before.

        if workflow.patched("refunds"): ...new... else: ...old...
        """
        return _loop("patched").patched(patch)

    async def wait_for(self, predicate: Callable[[], Any], *, timeout: Timeout | None = None) -> None:
        """Wait until a condition is true: `await workflow.wait_for(lambda: self.approved, timeout="3d")`.

        The condition is looked at again after each signal, action and timer. Whatever it raises is raised here.
        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "3d".
        """
        loop, seconds = _loop("wait_for"), _seconds(timeout)
        where = calling_line()
        wait = SignalWait(tuple(loop.conditions.handled), where, _until(loop, seconds))
        await loop.conditions.wait_for(predicate, seconds, f"the condition at {where} was not true", wait)

    async def receive(self, name: str, *, timeout: Timeout | None = None) -> dict[str, Any]:
        """Wait for a signal that has no handler; return its arguments: `await workflow.receive("approved")`.

        Signals that came earlier count, each once, in their order.
        timeout: how long to wait before TimeoutError: seconds, a timedelta, or text such as "3d".
        """
        loop, seconds = _loop("receive"), _seconds(timeout)
        if check_name("signal", name) in loop.conditions.handled:
            raise ValueError(f"receive({name!r}): the @signal method of that name takes it; wait for what it sets")
        wait = SignalWait((name,), calling_line(), _until(loop, seconds), is_receive=True)
        mailbox = loop.conditions.mailbox
        await loop.conditions.wait_for(lambda: mailbox.get(name), seconds, f"no signal {name!r} came", wait)
        arguments: dict[str, Any] = mailbox[name].popleft()
        return arguments

    async def start_child(
        self,
        call: ActionCall[T] | FlowCall[T],
        *,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        parent_close: ParentClose = "cancel",
    ) -> ChildHandle[T]:
        """Start another flow: `child = await workflow.start_child(Order.call(17))`, then `await child.result()`.

        call: a workflow's `Order.call(...)`, an action's `charge(...)` (a job), or the `call(...)` of a graph, a
        script or a pipeline.
        key: unique among the flows of its definition; a key that another flow has is a ChildFailedError.
        queue, priority: by default, the parent's.
        parent_close: what happens to the child when the parent ends: "cancel" it, or "abandon" it to go on by itself.
        """
        return await start_child(_loop("start_child"), call, key, queue, priority, parent_close)

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this run, and run the workflow anew with these arguments: same flow, id, key and inbox, and a new log.

        Only the new log is replayed, so a workflow that goes on for years stays fast. Whatever the run still waits for
        is cancelled, and so are its children, unless they were started with `parent_close="abandon"`.
        """
        loop = _loop("continue_as_new")
        if loop.signature is None:
            raise RuntimeError("workflow.continue_as_new() works only in a workflow, not in a script")
        raise RunEnds(loop.signature.bind(args, kwargs).encoded)

    def flow_id(self) -> str:
        return _loop("flow_id").flow_id


def _seconds(timeout: Timeout | None) -> float | None:
    return None if timeout is None else read_duration(timeout)


def _until(loop: FlowLoop, seconds: float | None) -> float | None:
    return None if seconds is None else loop.now + seconds


def _loop(name: str) -> FlowLoop:
    loop = running_flow_loop()
    if loop is None:
        raise RuntimeError(f"workflow.{name}() works only inside the run method of a workflow")
    return loop


def _check(cls: type[Workflow]) -> None:
    """Raise TypeError for a class whose flows could never run."""
    if cls.run is Workflow.run or not inspect.iscoroutinefunction(cls.run):
        raise TypeError(f"{cls.__name__} needs `async def run(self, ...)`")
    if cls.__init__ is object.__init__:
        return
    for one in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise TypeError(
                f"{cls.__name__}.__init__ requires {one.name!r}, but redrive calls it without arguments; make it a "
                "parameter of run, which gets the flow's input, or give it a default"
            )


workflow = WorkflowDecorator()
