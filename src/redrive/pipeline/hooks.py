"""The hooks of all interceptors, and how they are called: a hook that fails does not keep the others from running."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from redrive.pipeline.cancellation import stage_error
from redrive.pipeline.interceptors.base import BaseInterceptor, ErrorAction
from redrive.pipeline.interceptors.circuit_breaker import CircuitBreakerInterceptor
from redrive.pipeline.interceptors.retry import RetryInterceptor
from redrive.pipeline.output import StageResult
from redrive.pipeline.redacted_text import error_text
from redrive.pipeline.run_environment import RunEnvironment
from redrive.pipeline.stage_run import StageRun

Hook = Callable[..., Awaitable[Any]]


class Hooks(msgspec.Struct, frozen=True):
    """The hooks that do something, in the order in which they are called."""

    outside: tuple[Hook, ...] = ()
    """`before` of interceptors that run outside the circuit breaker."""
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    on_error: tuple[Hook, ...] = ()
    on_cancel: tuple[Callable[..., None], ...] = ()
    overruling: tuple[Hook, ...] = ()
    """`on_error` of subclasses of RetryInterceptor: their FAIL overrules the policy's retry."""
    own_data: bool = False
    """Whether an interceptor that is not redrive's may write to `ctx.data`."""


class Verdict(msgspec.Struct):
    """What the policy and the interceptors want after a failed attempt."""

    wanted: set[ErrorAction]
    hook_error: Exception | None = None
    """The error of the first hook that failed."""
    retry_announced: bool = False
    """Whether an interceptor has already told the event sink about the retry."""

    @property
    def action(self) -> ErrorAction:
        """RETRY if anyone wants it, else FALLBACK, else FAIL. After the error of a hook there is no retry."""
        if self.hook_error is not None:
            self.wanted.discard(ErrorAction.RETRY)
        return next((one for one in ErrorAction if one in self.wanted), ErrorAction.FAIL)


def hooks_of(interceptors: Sequence[BaseInterceptor]) -> Hooks:
    """Collect the hooks of interceptors that are sorted by priority."""
    outside = [one for one in interceptors if one.priority < CircuitBreakerInterceptor.priority]
    return Hooks(
        outside=_written(outside, "before"),
        before=_written(interceptors[len(outside) :], "before"),
        after=_written(interceptors, "after")[::-1],
        on_error=_written(interceptors, "on_error"),
        on_cancel=_written(interceptors, "on_cancel"),
        overruling=_written([one for one in interceptors if isinstance(one, RetryInterceptor)], "on_error"),
        own_data=any(not type(one).__module__.startswith("redrive.pipeline.") for one in interceptors),
    )


def _written(interceptors: Sequence[BaseInterceptor], name: str) -> tuple[Any, ...]:
    """Return the hooks of that name, but not those of the base class and of the policy, which do nothing."""
    nothing = {getattr(BaseInterceptor, name), RetryInterceptor.on_error}
    hooks = [getattr(one, name, None) for one in interceptors]
    return tuple(hook for hook in hooks if hook is not None and getattr(hook, "__func__", hook) not in nothing)


async def call_after(hooks: Hooks, result: StageResult, ctx: StageRun, run: RunEnvironment) -> Verdict | None:
    """Call the `after` hooks. If one fails, the output is rejected: hooks not yet called get `on_error` instead."""
    hook = None
    try:
        for hook in hooks.after:
            await hook(ctx.stage_name, result, ctx)
        return None
    except BaseException as raised:  # noqa: BLE001 - stage_error re-raises what ends the run
        rejection = stage_error(raised, run_is_ending=run.stopping)
    ctx.failure = ctx.decision = None
    called = {_owner(one) for one in hooks.after[: hooks.after.index(hook) + 1]}
    left = [one for one in hooks.on_error if _owner(one) not in called]
    verdict = await _call_on_error(hooks, left, rejection, ctx, run, set())
    verdict.hook_error = rejection
    return verdict


async def call_on_error(
    hooks: Hooks, error: Exception, ctx: StageRun, run: RunEnvironment, *, retrying: bool
) -> Verdict:
    """Call the `on_error` hooks for a failed attempt. `retrying`: whether the policy grants a retry."""
    wanted = {ErrorAction.RETRY if retrying else ErrorAction.FAIL}
    return await _call_on_error(hooks, hooks.on_error, error, ctx, run, wanted)


async def _call_on_error(
    hooks: Hooks,
    called: Sequence[Hook],
    error: Exception,
    ctx: StageRun,
    run: RunEnvironment,
    wanted: set[ErrorAction],
) -> Verdict:
    verdict = Verdict(wanted)
    for hook in called:
        try:
            returned = await hook(ctx.stage_name, error, ctx)
            action = None if returned is None else ErrorAction(returned)
        except BaseException as raised:  # noqa: BLE001 - stage_error re-raises what ends the run
            hook_error = stage_error(raised, run_is_ending=run.stopping)
            set_cause(hook_error, error)
            verdict.hook_error = verdict.hook_error or hook_error
            continue
        if hook in hooks.overruling and action is ErrorAction.FAIL:
            wanted.discard(ErrorAction.RETRY)
        elif action is not None:
            wanted.add(action)
    return verdict


def call_on_cancel(hooks: Hooks, ctx: StageRun) -> None:
    for hook in hooks.on_cancel:
        try:
            hook(ctx.stage_name, ctx)
        except Exception as error:  # noqa: BLE001 - the stage is being cancelled all the same
            logging.getLogger("redrive").error(
                "stage %s: on_cancel failed: %s: %s", ctx.stage_name, type(error).__name__, error_text(error)
            )


def set_cause(error: Exception, cause: Exception) -> None:
    """Chain an error to the one it was raised about, unless it has a cause."""
    if error is not cause and error.__cause__ is None:
        error.__cause__ = cause


def _owner(hook: Hook) -> int:
    return id(getattr(hook, "__self__", hook))
