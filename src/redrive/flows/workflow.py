"""`Workflow` and `@workflow`: ordinary Python whose every step is durable."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, cast, overload

from redrive.determinism.dice import Random
from redrive.determinism.ids import UUID
from redrive.flows.action import ActionCall, call_action
from redrive.flows.flow_call import FlowCall
from redrive.flows.loop import FlowLoop, running_flow_loop
from redrive.flows.registry import register_workflow
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.stored_policy import write_stored_policy
from redrive.flows.values import Signature

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound="type[Workflow]")


class _Runs(Protocol[P, T_co]):
    """A class with a coroutine method `run`, whose parameters and result type `call` takes over."""

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class Workflow:
    """Write `async def run(self, ...)`, decorate the class with `@workflow`, and `app.start(Billing.call(...))` it.

    `run` is ordinary Python, but without I/O of its own: what touches the world belongs into actions. After a crash it
    is run again from its log, so that it goes on where it was.
    """

    workflow_name: ClassVar[str]
    signature: ClassVar[Signature]

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs `async def run(self, ...)`")

    @classmethod
    def call(cls: type[_Runs[P, T]], *args: P.args, **kwargs: P.kwargs) -> FlowCall[T]:
        """The workflow with the arguments of `run`, ready to be started."""
        workflow = cast("type[Workflow]", cls)
        if not hasattr(workflow, "workflow_name"):
            raise TypeError(f"{cls.__name__} is not a workflow yet; decorate it with @workflow")
        return FlowCall("workflow", workflow, workflow.signature.bind(args, kwargs))

    async def run_action(self, call: ActionCall[T], *, retry: Retry | None = None, timeout: Timeout | None = None) -> T:
        """Carry out an action: `await self.run_action(charge(user=user), retry=RetryPolicy(attempts=3))`.

        retry: a RetryPolicy, a Policy, a list of them (each failure is answered by the first that matches; what is for
        all attempts together, such as a deadline, is refused there), or policy text; by default the action's own.
        timeout: time for one attempt: seconds, a timedelta, or text such as "2m".
        """
        if not isinstance(call, ActionCall):
            raise TypeError(f"run_action takes the call of an @action, such as charge(user=user), not {call!r}")
        action = call.action
        policy = action.policy
        if retry is not None or timeout is not None:
            policy = as_policy(policy if retry is None else retry, timeout)
            write_stored_policy(policy)
        loop = running_flow_loop()
        if loop is None:
            return await call_action(call, policy)
        result: T = await loop.schedule(action.name, call.arguments, policy)
        return result


class WorkflowDecorator:
    """`@workflow` makes a class a workflow; inside of one, `workflow.now()` and the like are for its code."""

    @overload
    def __call__(self, cls: W, /) -> W: ...
    @overload
    def __call__(self, cls: None = None, /, *, name: str | None = None) -> Callable[[W], W]: ...
    def __call__(self, cls: Any = None, /, *, name: str | None = None) -> Any:
        def decorate(cls: Any) -> Any:
            if not (isinstance(cls, type) and issubclass(cls, Workflow)):
                raise TypeError(f"@workflow is for classes derived from Workflow, and {cls!r} is none")
            _check(cls)
            cls.workflow_name = name or cls.__name__
            cls.signature = Signature(cls.run, f"workflow {cls.workflow_name}", method=True)
            register_workflow(cls.workflow_name, cls)
            return cls

        return decorate if cls is None else decorate(cls)

    def now(self) -> datetime:
        """The time of the flow: the same when its code is run again."""
        return datetime.fromtimestamp(_loop("now").now, UTC)

    def random(self) -> Random:
        """Chance that draws the same numbers when the flow's code is run again."""
        random: Random = _loop("random").flow.random
        return random

    def uuid(self) -> UUID:
        """A new id, the same when the flow's code is run again."""
        return UUID(int=_loop("uuid").flow.random.getrandbits(128), version=4)

    def patched(self, patch: str) -> bool:
        """Whether to run the changed code: true for flows that reach this line first with it, false for older ones.

        if workflow.patched("refunds"): ...new... else: ...old...
        """
        return _loop("patched").patched(patch)

    def flow_id(self) -> str:
        flow_id: str = _loop("flow_id").flow.id
        return flow_id


def _loop(name: str) -> FlowLoop:
    loop = running_flow_loop()
    if loop is None:
        raise RuntimeError(f"workflow.{name}() works only inside the run method of a workflow")
    return loop


def _check(cls: type[Workflow]) -> None:
    """What could only fail once a flow was started is refused here."""
    if cls.run is Workflow.run or not inspect.iscoroutinefunction(cls.run):
        raise TypeError(f"{cls.__name__} needs `async def run(self, ...)`")
    if cls.__init__ is object.__init__:
        return
    for one in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise TypeError(
                f"{cls.__name__}.__init__ needs {one.name!r}, and nobody would give it: a flow's input goes to run; "
                "make it a parameter of run, or give it a default"
            )


workflow = WorkflowDecorator()
