"""A time limit for a plain function, which nothing can interrupt: it runs in a thread that is left behind."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from redrive.determinism.raising import raise_as_it_is

T = TypeVar("T")


class CutShort(TimeoutError):
    """What ran was still running when its time came; it was cancelled or, in a thread, left behind."""


def call_in_thread(seconds: float, work: Callable[[], T]) -> T:
    """Call `work` in a thread of its own, in a copy of this context. If it takes longer, raise CutShort.

    The thread cannot be stopped: it runs on to its end, and what it returns is dropped.
    """
    context = copy_context()
    done = threading.Event()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((True, context.run(work)))
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread as it is
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
        # As there.
        outcome.clear()
        del value
