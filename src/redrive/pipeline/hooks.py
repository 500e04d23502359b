"""The hooks of the interceptors, and how they are told: one that fails keeps no other from being told."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from redrive.pipeline.cancellation import failure_in
from redrive.pipeline.interceptors.base import ErrorAction
from redrive.pipeline.output import StageResult
from redrive.pipeline.shown import message_of
from redrive.pipeline.stage_run import StageRun

Hook = Callable[..., Awaitable[Any]]


class Hooks(msgspec.Struct, frozen=True):
    """The hooks that do something, of all interceptors, in the order in which they are called."""

    outside: tuple[Hook, ...] = ()
    """`before` of those that run outside the circuit breaker."""
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    on_error: tuple[Hook, ...] = ()
    on_cancel: tuple[Callable[..., None], ...] = ()
    overruling: tuple[Hook, ...] = ()
    """`on_error` of retry interceptors that have one of their own: what it says goes before the policy."""
    own_data: bool = False
    """Whether an interceptor that is not redrive's may write to `ctx.data`."""


class Said(msgspec.Struct):
    """What interceptors want after a failed attempt."""

    wanted: set[ErrorAction]
    broken: Exception | None = None
    """The error of the first hook that failed."""
    told_of_retry: bool = False
    """Whether an interceptor with retries of its own has told the sink of this one."""

    def first(self) -> ErrorAction:
        """Of RETRY, FALLBACK and FAIL the first that anyone wants; a hook that failed wants no more attempts."""
        if self.broken is not None:
            self.wanted.discard(ErrorAction.RETRY)
        return next((one for one in ErrorAction if one in self.wanted), ErrorAction.FAIL)


async def tell_after(hooks: Hooks, result: StageResult, state: StageRun) -> Said | None:
    """Tell of an output. When a hook fails, it is refused: those that were not told yet are told of that error."""
    hook = None
    try:
        for hook in hooks.after:
            await hook(state.stage_name, result, state)
        return None
    except BaseException as raised:  # noqa: BLE001 - what ends the stage is raised again there
        refused = failure_in(raised, state)
    state.failure = state.decision = None
    told = {_whose(one) for one in hooks.after[: hooks.after.index(hook) + 1]}
    said = await _tell(hooks, [one for one in hooks.on_error if _whose(one) not in told], refused, state, set())
    said.broken = refused
    return said


async def tell_error(hooks: Hooks, error: Exception, state: StageRun, *, retrying: bool) -> Said:
    """Tell of a failed attempt. `retrying`: what the policy wants."""
    wanted = {ErrorAction.RETRY if retrying else ErrorAction.FAIL}
    return await _tell(hooks, hooks.on_error, error, state, wanted)


async def _tell(
    hooks: Hooks, told: Sequence[Hook], error: Exception, state: StageRun, wanted: set[ErrorAction]
) -> Said:
    said = Said(wanted)
    for hook in told:
        try:
            answer = await hook(state.stage_name, error, state)
            action = None if answer is None else ErrorAction(answer)
        except BaseException as raised:  # noqa: BLE001 - what ends the stage is raised again there
            broken = failure_in(raised, state)
            link(broken, error)
            said.broken = said.broken or broken
            continue
        if hook in hooks.overruling and action is ErrorAction.FAIL:
            wanted.discard(ErrorAction.RETRY)
        elif action is not None:
            wanted.add(action)
    return said


def tell_cancel(hooks: Hooks, state: StageRun) -> None:
    for hook in hooks.on_cancel:
        try:
            hook(state.stage_name, state)
        except Exception as error:  # noqa: BLE001 - the stage is being ended, whatever a hook makes of it
            logging.getLogger("redrive").error(
                "stage %s: on_cancel failed: %s: %s", state.stage_name, type(error).__name__, message_of(error)
            )


def link(error: Exception, cause: Exception) -> None:
    """Whoever sees the error sees what it was about."""
    if error is not cause and error.__cause__ is None:
        error.__cause__ = cause


def _whose(hook: Hook) -> int:
    return id(getattr(hook, "__self__", hook))
