"""Says so when something holds up a worker's event loop: then nothing goes on, and its lease runs out."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.scripts.execution import script_place

LOOK_EVERY = 1.0
TOO_LONG = 3.0

log = logging.getLogger("redrive")


def watch_loop() -> Callable[[], None]:
    """Watch the running loop from a thread until what is returned is called."""
    loop = asyncio.get_running_loop()
    thread = threading.get_ident()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return
            asked = SYSTEM_CLOCK.monotonic()
            while not answered.wait(TOO_LONG) and not over.is_set():
                seconds = SYSTEM_CLOCK.monotonic() - asked
                log.warning(
                    "nothing in this worker has gone on for %.0f s: code that does not await holds it up%s; what takes "
                    "long belongs into an action that is a plain `def`",
                    seconds,
                    _place(sys._current_frames().get(thread)),
                )
            over.wait(LOOK_EVERY)

    threading.Thread(target=watch, name="redrive-loop-watch", daemon=True).start()
    return over.set


def _place(frame: FrameType | None) -> str:
    """The nearest line of the user's own code, a script or Python."""
    while frame is not None:
        if said := script_place(frame):
            return f" at {said}"
        file = frame.f_code.co_filename
        if not str(frame.f_globals.get("__name__", "")).startswith(("redrive.", "asyncio.")) and file[:1] != "<":
            return f" at {os.path.basename(file)}:{frame.f_lineno} ({frame.f_code.co_qualname})"
        frame = frame.f_back
    return ""
