"""`Workflow` and `@workflow`: ordinary Python whose every step is durable."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar, overload

from redrive.determinism.dice import Random
from redrive.determinism.ids import UUID
from redrive.flows.action import ActionCall, call_action
from redrive.flows.loop import FlowLoop, running_flow_loop
from redrive.flows.registry import register_workflow
from redrive.flows.retry_policy import Retry, Timeout, as_policy
from redrive.flows.stored_policy import write_stored_policy
from redrive.flows.values import Signature

T = TypeVar("T")
W = TypeVar("W", bound="type[Workflow]")


class Workflow:
    """Write `async def run(self, ...)`, decorate the class with `@workflow`, and start it with `app.start(...)`.

    `run` is ordinary Python, but without I/O of its own: what touches the world belongs into actions. After a crash it
    is run again from its log, so that it goes on where it was.
    """

    workflow_name: ClassVar[str]
    signature: ClassVar[Signature]

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs `async def run(self, ...)`")

    async def run_action(self, call: ActionCall[T], *, retry: Retry | None = None, timeout: Timeout | None = None) -> T:
        """Carry out an action: `await self.run_action(charge(user=user), retry=RetryPolicy(attempts=3))`.

        retry: a RetryPolicy, a Policy, a list of them (each failure is answered by the first that matches), or policy
        text; by default the action's own.
        timeout: time for one attempt: seconds, a timedelta, or text such as "2m".
        """
        if not isinstance(call, ActionCall):
            raise TypeError(f"run_action takes the call of an @action, such as charge(user=user), not {call!r}")
        policy = call.action.policy
        if retry is not None or timeout is not None:
            policy = as_policy(policy if retry is None else retry, timeout)
            write_stored_policy(policy)
        return await call_action(call, policy)


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
            if cls.run is Workflow.run:
                raise TypeError(f"{cls.__name__} needs `async def run(self, ...)`")
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


workflow = WorkflowDecorator()
