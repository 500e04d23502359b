"""Log what blocks the event loop of a server that has no worker; a worker watches its own loop."""

import threading
from collections.abc import Callable

from redrive.worker.maintenance.loop_watchdog import TOO_LONG, LoopWatchdog

CHECK_EVERY = 1.0


def watch_loop() -> Callable[[], None]:
    """Watch the running loop from a thread. Return a function that stops the watchdog."""
    watchdog, stopped = LoopWatchdog(TOO_LONG), threading.Event()

    def watch() -> None:
        while not stopped.wait(CHECK_EVERY):
            try:
                watchdog.check(CHECK_EVERY)
            except RuntimeError:
                # The loop is closed.
                return

    threading.Thread(target=watch, name="redrive-loop-watchdog", daemon=True).start()
    return stopped.set
