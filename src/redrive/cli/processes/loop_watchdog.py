"""Log a warning when code blocks a worker's event loop."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.scripts.execution import script_place

CHECK_EVERY = 1.0
TOO_LONG = 3.0

log = logging.getLogger("redrive")


def watch_loop() -> Callable[[], None]:
    """Watch the running loop from a thread. Return a function that stops the watchdog."""
    loop = asyncio.get_running_loop()
    thread = threading.get_ident()
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.is_set():
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return
            since = SYSTEM_CLOCK.monotonic()
            while not answered.wait(TOO_LONG) and not stopped.is_set():
                seconds = SYSTEM_CLOCK.monotonic() - since
                log.warning(
                    "the event loop of this worker has been blocked for %.0f s%s; move slow code that does not await "
                    "into an action that is a plain `def`",
                    seconds,
                    _blocking_line(sys._current_frames().get(thread)),
                )
            stopped.wait(CHECK_EVERY)

    threading.Thread(target=watch, name="redrive-loop-watchdog", daemon=True).start()
    return stopped.set


def _blocking_line(frame: FrameType | None) -> str:
    """Return the innermost line of the user's own code, a script or Python."""
    while frame is not None:
        if place := script_place(frame):
            return f" at {place}"
        file = frame.f_code.co_filename
        if not str(frame.f_globals.get("__name__", "")).startswith(("redrive.", "asyncio.")) and file[:1] != "<":
            return f" at {os.path.basename(file)}:{frame.f_lineno} ({frame.f_code.co_qualname})"
        frame = frame.f_back
    return ""
