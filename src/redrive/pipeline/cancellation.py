"""Cancellations that are not the run's own: a stage awaited something that was cancelled, or cancelled its own task."""

import asyncio
from collections.abc import Generator
from contextlib import suppress
from types import coroutine
from typing import Any

from redrive.errors import Permanent
from redrive.pipeline.stage_run import StageRun


def failure_in(raised: BaseException, state: StageRun) -> Exception:
    """The error that fails the stage. What ends it instead is raised: the run is being ended, or the program is."""
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, asyncio.CancelledError) and not state.run_is_ending:
        _forget_cancels()
        return cancelled_inside("stage", raised)
    raise raised


def cancelled_inside(who: str, raised: asyncio.CancelledError) -> Permanent:
    error = Permanent(f"what the {who} waited for was cancelled")
    error.__cause__ = raised
    return error


async def let_cancels_pass() -> None:
    """A stage cancelled its own task and did not wait for that: it must not hit the next stage in this task."""
    with suppress(asyncio.CancelledError):
        await _one_turn()
    _forget_cancels()


def _forget_cancels() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


@coroutine
def _one_turn() -> Generator[None, Any, None]:
    yield
