"""Time limits for plain functions: they cannot be interrupted, so they run in a thread that can be abandoned."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from redrive.determinism.raising import raise_as_it_is

T = TypeVar("T")


class CutShort(TimeoutError):
    """The time limit was reached; the work was cancelled or, if it ran in a thread, abandoned."""


def call_in_thread(seconds: float, work: Callable[[], T]) -> T:
    """Call `work` in its own thread, in a copy of this context; raise CutShort if it takes longer than `seconds`.

    The thread cannot be stopped: it runs to its end, and its result is dropped.
    """
    context = copy_context()
    done = threading.Event()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((True, context.run(work)))
        except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
            outcome.extend((False, error))
        finally:
            done.set()

    threading.Thread(target=run, name="redrive-attempt", daemon=True).start()
    if not done.wait(seconds):
        raise CutShort
    succeeded, value = outcome
    if succeeded:
        return value  # type: ignore[no-any-return]  # what `work` returned, through an untyped box
    try:
        raise_as_it_is(value)
    finally:
        # The traceback references this frame, as in `raise_as_it_is`.
        outcome.clear()
        del value
