"""Measure how long each callback holds the event loop of this thread, and name the one that held it longest."""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SAMPLE_EVERY = 0.01
WORTH_A_STACK = 0.02
_HANDLE: Any = asyncio.Handle
"""There is no public seam."""


class Hold:
    """One callback: how long it took, how much of that its own thread computed, and where it was seen."""

    def __init__(self, seconds: float, computed: float, collected: float, who: str, stack: str) -> None:
        self.seconds = seconds
        self.computed = computed
        self.collected = collected
        self.who = who
        self.stack = stack


class LoopHolds:
    """The longest hold since the last `take`. Time that other threads have the interpreter counts, as for users."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._since = 0.0
        self._longest = Hold(0.0, 0.0, 0.0, "", "")
        self._stack = ""
        self._collected = 0.0
        self._collecting = 0.0
        self._stopped = threading.Event()

    def take(self) -> Hold:
        longest, self._longest = self._longest, Hold(0.0, 0.0, 0.0, "", "")
        return longest

    def run(self, run: Any, handle: asyncio.Handle) -> None:
        if threading.get_ident() != self._thread:
            run(handle)
            return
        self._collected, self._stack = 0.0, ""
        computed = time.thread_time()
        self._since = since = time.perf_counter()
        try:
            run(handle)
        finally:
            self._since = 0.0
            seconds = time.perf_counter() - since
            if seconds > self._longest.seconds:
                spent = time.thread_time() - computed
                self._longest = Hold(seconds, spent, self._collected, _name_of(handle), self._stack)

    def collected(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() == self._thread:
            if phase == "start":
                self._collecting = time.perf_counter()
            else:
                self._collected += time.perf_counter() - self._collecting

    def sample(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY):
            since = self._since
            if since and time.perf_counter() - since > WORTH_A_STACK:
                frame = sys._current_frames().get(self._thread)
                if frame is not None and self._since == since:
                    lines = traceback.extract_stack(frame)
                    self._stack = " < ".join(f"{one.name}:{one.lineno}" for one in reversed(lines[-7:]))

    def stop(self) -> None:
        self._stopped.set()


@contextmanager
def loop_holds() -> Iterator[LoopHolds]:
    """Measure the loop that runs in this thread."""
    holds, run = LoopHolds(), _HANDLE._run

    def timed(handle: asyncio.Handle) -> None:
        holds.run(run, handle)

    _HANDLE._run = timed
    gc.callbacks.append(holds.collected)
    sampler = threading.Thread(target=holds.sample, daemon=True)
    sampler.start()
    try:
        yield holds
    finally:
        _HANDLE._run = run
        gc.callbacks.remove(holds.collected)
        holds.stop()
        sampler.join()


def _name_of(handle: asyncio.Handle) -> str:
    callback = _HANDLE._callback.__get__(handle)
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return str(getattr(owner.get_coro(), "__qualname__", owner))
    return str(getattr(callback, "__qualname__", callback))
