"""Detect code that blocks the event loop, and name it. Runs in another thread, since a blocked loop cannot."""

import asyncio
import logging
import os
import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.scripts.execution import script_place
from redrive.telemetry.logs import log_flow

TOO_LONG = 3.0
"""Seconds after which a blocked loop is logged; it is logged again each time as many have passed."""

log = logging.getLogger("redrive")


class Holder(NamedTuple):
    """What the event loop is executing."""

    flow_id: str | None
    """None when it is not the work of a flow."""
    item: int | None
    """The item whose attempt it is; None for the flow's own code."""
    step: str
    place: str
    """The innermost line of the user's own code, or "" where there is none."""
    attempt: int | None = None
    """The number of the item's attempt."""

    def __str__(self) -> str:
        what = [] if self.flow_id is None else [f"by flow {self.flow_id}"]
        what += [f"step {self.step}"] if self.step else []
        return " ".join([*([", ".join(what)] if what else []), *([f"at {self.place}"] if self.place else [])])


class LoopWatchdog:
    """Asks the running loop to answer at each `check`. Only one thread may call `check`."""

    def __init__(self, too_long: float) -> None:
        """too_long: seconds after which a blocked loop is logged."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._too_long = too_long
        self._answered = True
        self._checked_at, self._cpu = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.cpu()
        self._held = self._logged_at = 0.0
        self._seen: set[tuple[str | None, int | None]] = set()
        """What has held the loop since its last answer."""
        self._last: Holder | None = None

    def check(self, every: float) -> float:
        """Return for how many seconds code has held the loop. `every`: how often this is called.

        Time in which this process did not run, because it was stopped or the machine was busy, does not count.
        """
        now, cpu = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.cpu()
        passed, used = now - self._checked_at, cpu - self._cpu
        self._checked_at, self._cpu = now, cpu
        if self._answered:
            self._held = self._logged_at = 0.0
            self._answered = False
            self._seen.clear()
            self._loop.call_soon_threadsafe(self._answer)
            return 0.0
        # Code that keeps the interpreter to itself, such as a regular expression, stops this thread too.
        self._held += passed if used >= passed / 2 else min(passed, 2 * every)
        holder = self._last = holder_of(sys._current_frames().get(self._thread))
        self._seen.add((holder.flow_id, holder.item))
        if self._held - self._logged_at >= self._too_long and not self._answered:
            self._logged_at = self._held
            self._warn(holder)
        return self._held

    def _warn(self, holder: Holder) -> None:
        blocked = (
            f"the event loop has been blocked for {self._held:.1f} s{f' at {holder.place}' if holder.place else ''}; "
            "move slow code that does not await into an action that is a plain `def`"
        )
        if holder.flow_id is None:
            log.warning("%s", blocked)
        else:
            log_flow(logging.WARNING, holder.flow_id, "%s", blocked, step=holder.step, attempt=holder.attempt)

    def _answer(self) -> None:
        self._answered = True

    @property
    def holder(self) -> Holder | None:
        """The work that has blocked the loop since its last answer; None if several did in turn, or code of no flow."""
        return self._last if len(self._seen) == 1 and self._last and self._last.flow_id is not None else None


def holder_of(frame: FrameType | None) -> Holder:
    """Return what a thread is executing, given its innermost frame."""
    place, frame_of_place = "", frame
    while frame_of_place is not None and not place:
        place = _users_line(frame_of_place)
        frame_of_place = frame_of_place.f_back
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("redrive."):
            found: Any = frame.f_locals.get("attempt") if module == "redrive.runners.runner" else None
            if found is not None:
                return Holder(found.flow_id, found.item, found.step, place, found.number)
            found = frame.f_locals.get("run") if module.startswith("redrive.worker.") else None
            if found is not None:
                return Holder(found.id, None, "", place)
        frame = frame.f_back
    return Holder(None, None, "", place)


def _users_line(frame: FrameType) -> str:
    """Return the line that the frame is at, if it is the user's own Python code or a script; "" otherwise."""
    if place := script_place(frame):
        return place
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    # The flows of the demo are written as users write theirs.
    is_ours = module.startswith(("redrive.", "asyncio.")) and not module.startswith("redrive.demo.")
    if is_ours or file[:1] == "<":
        return ""
    return f"{os.path.basename(file)}:{frame.f_lineno} ({frame.f_code.co_qualname})"
