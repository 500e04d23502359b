"""Run the event loop of a long-running command, and stop it on a signal."""

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
RELEASE_TIME = 5.0
"""Seconds that a worker has after its grace period to release its flows, before it is killed."""
_IDLE_THREAD_TIME = 1.0
_ONE_REQUEST = 1.0
"""Seconds within which repeated signals count as one: a service manager signals every process, and the supervisor
passes its own signal on as well."""


def run_in_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, on uvloop if it is installed."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop

        new_loop = new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def stop_on_signals(stop: Callable[[], None], supervised: bool = False) -> Callable[[], None]:
    """Call `stop` at the first SIGINT or SIGTERM; the next one ends the process. Return a function that restores.

    A second Ctrl-C always counts, however soon, except in a `supervised` process, which no terminal reaches.
    The loop's own signal handlers would not do: the second signal must work while a flow's code blocks the loop.
    """
    loop = asyncio.get_running_loop()
    requested_at: float | None = None

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal requested_at
        now = SYSTEM_CLOCK.monotonic()
        if requested_at is None:
            requested_at = now
            loop.call_soon_threadsafe(stop)
        elif (number == signal.SIGINT and not supervised) or now - requested_at >= _ONE_REQUEST:
            exit_now(INTERRUPTED)

    before = {number: signal.signal(number, received) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


def exit_now(code: int) -> None:
    """End the process without cleaning up."""
    for stream in (sys.stdout, sys.stderr):
        # The signal may have interrupted a write.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def exit_code(code: int) -> int:
    """Return the code; but end the process if a plain function still runs, since its thread cannot be stopped."""
    for thread in threading.enumerate():
        if thread.name.startswith("redrive-action"):
            # An idle thread ends by itself.
            thread.join(_IDLE_THREAD_TIME)
            if thread.is_alive():
                exit_now(code)
    return code
