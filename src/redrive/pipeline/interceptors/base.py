"""The base class of interceptors: hooks around each attempt at a stage."""

from enum import Enum

from redrive.pipeline.output import StageOutput, StageResult
from redrive.pipeline.stage_run import StageRun


class ErrorAction(Enum):
    """What an interceptor wants after a failed attempt.

    If interceptors disagree, RETRY wins over FALLBACK, and FALLBACK over FAIL.
    """

    RETRY = "retry"
    FALLBACK = "fallback"
    FAIL = "fail"


class BaseInterceptor:
    """Derive from this class and write the hooks you need; hooks that you leave out cost nothing.

    `before` and `on_error` are called in order of priority, `after` in reverse order. Each attempt ends with a call of
    `after`, `on_error` or `on_cancel`. `ctx` is the run as seen from this stage, with `ctx.attempt`, `ctx.failure` and
    `ctx.decision`.

    An error in `before` fails the attempt. An error in `after` or `on_error` fails the stage without a retry, because
    the work may be done. The other interceptors are called in any case.
    """

    name: str = "interceptor"
    priority: int = 100
    """Lower runs first. Below 10 an interceptor runs outside the circuit breaker."""

    def in_use(self) -> bool:
        """Called once when a run begins; return False to leave the interceptor out of that run."""
        return True

    async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
        """Called before an attempt; return an output to use it instead of making the attempt."""

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        """Called when the attempt gave an output."""

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        """Called when the attempt failed. FAIL and None leave the decision to the others."""
        return ErrorAction.FAIL

    def on_cancel(self, stage_name: str, ctx: StageRun) -> None:
        """Called when the attempt is cancelled, with the run or because another stage failed. It cannot await."""


class StatelessInterceptor(BaseInterceptor):
    """For redrive's own interceptors that hold only settings: those with equal settings are equal, and immutable.

    So a pipeline can reuse its plan when each run gets a new list of them. A subclass written elsewhere may hold state:
    it is equal to itself only.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) and self.is_ours():
            raise AttributeError(f"a {type(self).__name__} is immutable; create another one")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.is_ours() and type(other) is type(self) and bool(vars(other) == vars(self))

    def __hash__(self) -> int:
        return hash(type(self))

    def is_ours(self) -> bool:
        """Whether the class is redrive's own, and not a subclass written elsewhere."""
        return type(self).__module__.startswith("redrive.pipeline.")
