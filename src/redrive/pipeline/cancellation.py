"""Cancellations that do not end the run: a stage awaited something that was cancelled, or cancelled its own task."""

import asyncio
from collections.abc import Generator
from contextlib import suppress
from types import coroutine
from typing import Any

from redrive.errors import Permanent


def stage_error(raised: BaseException, *, run_is_ending: bool) -> Exception:
    """Return the error that fails the stage; re-raise what ends the run, the task or the program instead."""
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, asyncio.CancelledError) and not run_is_ending:
        _clear_cancel_requests()
        return cancelled_inside("stage", raised)
    raise raised


def cancelled_inside(what: str, raised: asyncio.CancelledError) -> Permanent:
    """Return the error of a stage, or compensation, that awaited something cancelled."""
    error = Permanent(f"something that the {what} awaited was cancelled")
    error.__cause__ = raised
    return error


async def absorb_cancel_requests() -> None:
    """Consume a cancel request that a stage made of its own task, so that it misses the next stage in the task."""
    with suppress(asyncio.CancelledError):
        await _yield_once()
    _clear_cancel_requests()


def _clear_cancel_requests() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


@coroutine
def _yield_once() -> Generator[None, Any, None]:
    yield
