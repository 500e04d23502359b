"""Long-running commands: an event loop, as fast as is installed, that a signal ends."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from redrive.cli.exit_codes import INTERRUPTED
from redrive.determinism.clock import SYSTEM_CLOCK

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FOR_THE_HAND_OVER = 5.0
"""Seconds that a worker has, beyond its grace period, before whoever told it to stop loses patience."""
_FOR_IDLE_THREADS = 1.0
_ONE_ORDER = 1.0
"""Seconds in which a signal may come more than once and is still one order to stop: service managers send it to every
process, whose supervisor passes it on as well."""


def run_in_loop(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on uvloop where that is installed."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop

        new_loop = new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def on_signals(stop: Callable[[], None], supervised: bool = False) -> Callable[[], None]:
    """Call `stop` at the first SIGINT or SIGTERM; the next order ends the process at once. What is returned undoes it.

    Ctrl-C twice is two orders, however soon; but no terminal reaches what is `supervised`.
    The loop's own handlers would not do: the second signal must count when a flow's code holds up the loop.
    """
    loop = asyncio.get_running_loop()
    told: float | None = None

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal told
        now = SYSTEM_CLOCK.monotonic()
        if told is None:
            told = now
            loop.call_soon_threadsafe(stop)
        elif (number == signal.SIGINT and not supervised) or now - told >= _ONE_ORDER:
            leave_at_once(INTERRUPTED)

    before = {number: signal.signal(number, received) for number in SIGNALS}

    def undo() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return undo


def leave_at_once(code: int) -> None:
    """End the process without waiting for anything."""
    for stream in (sys.stdout, sys.stderr):
        # A signal may have come in the middle of a write.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def leave(code: int) -> int:
    """The exit code; but where plain functions still run, whose threads nothing can stop, the process ends here."""
    for thread in threading.enumerate():
        if thread.name.startswith("redrive-action"):
            # An idle one ends by itself.
            thread.join(_FOR_IDLE_THREADS)
            if thread.is_alive():
                leave_at_once(code)
    return code
