"""What an interceptor is: hooks around each attempt at a stage."""

from enum import Enum

from redrive.pipeline.output import StageOutput, StageResult
from redrive.pipeline.stage_run import StageRun


class ErrorAction(Enum):
    """What an interceptor wants to happen after a failed attempt.

    One that says RETRY goes before all that say FALLBACK, and one that says FALLBACK before all that say FAIL.
    """

    RETRY = "retry"
    FALLBACK = "fallback"
    FAIL = "fail"


class BaseInterceptor:
    """Derive from it, and write the hooks you need: those you leave out cost nothing.

    `before` and `on_error` are called in the order of priorities, `after` in reverse. Of each attempt that ends one of
    `after` and `on_error` is told, and `on_cancel` of one that does not. `ctx` is the run, seen from this stage, with
    `ctx.attempt`, `ctx.failure` and `ctx.decision`.

    An error in `before` fails the attempt. One in `after` or `on_error` fails the stage: what was done is not done
    again because of it. The other interceptors are told in any case.
    """

    name: str = "interceptor"
    priority: int = 100
    """Lower runs first. Below 10 an interceptor runs outside the circuit breaker."""

    def in_use(self) -> bool:
        """Asked once as a run begins; False leaves the interceptor out of it."""
        return True

    async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
        """An attempt is about to begin; an output that is returned is taken instead of it."""

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        """The attempt gave an output."""

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        """The attempt failed. FAIL and None leave it to the others."""
        return ErrorAction.FAIL

    def on_cancel(self, stage_name: str, ctx: StageRun) -> None:
        """The attempt was cancelled, with the run or by another stage's failure. There is no time to wait here."""


class StatelessInterceptor(BaseInterceptor):
    """For redrive's own that are nothing but their settings: those with equal settings are equal.

    A pipeline that is run with a new list of them each time need not be prepared anew. What is derived from them may
    hold state, and is equal to itself only. Their settings cannot be changed: what was prepared with them would stay.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) and self.is_ours():
            raise AttributeError(f"a {type(self).__name__} cannot be changed; make another one")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.is_ours() and type(other) is type(self) and bool(vars(other) == vars(self))

    def __hash__(self) -> int:
        return hash(type(self))

    def is_ours(self) -> bool:
        """Not derived by someone else."""
        return type(self).__module__.startswith("redrive.pipeline.")
