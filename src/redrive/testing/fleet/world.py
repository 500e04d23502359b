"""Virtual time, and the machines that live in it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from redrive.determinism.dice import seeded_random
from redrive.testing.fleet.machine_loop import MachineLoop
from redrive.testing.fleet.story import Story

# 2030-01-01 00:00:00 UTC, which no test mistakes for today.
WALL_START = 1_893_456_000.0
# How often a machine runs all that is ready before another one gets a turn, and not only a part of it.
WHOLE_TURNS = 0.7
MOST_STEPS = 20_000
"""Turns within one moment of virtual time after which the world counts as spinning."""


class Spinning(Exception):
    """Machines keep running, and time does not move."""


class World:
    """Runs all machines in one thread: in turns drawn from the seed, and when none has anything to do, time moves."""

    def __init__(self, seed: int | str) -> None:
        self.now = 0.0
        self.random = seeded_random(seed)
        self.story = Story(lambda: self.now)
        self.loops: list[MachineLoop] = []
        self._agenda: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._steps = 0

    def time(self) -> float:
        return self.now

    def wall(self) -> float:
        """The true time of day, which machines may have wrong."""
        return WALL_START + self.now

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """Call back at this time, on no machine: what the network, the store and fate do."""
        heapq.heappush(self._agenda, (when, next(self._numbers), callback, args))

    def after(self, seconds: float, callback: Callable[..., object], *args: Any) -> None:
        self.at(self.now + seconds, callback, *args)

    def run(self, is_done: Callable[[], bool], until: float) -> bool:
        """Let the world go on until something is done; False when it is not by then."""
        while not is_done():
            if not self.step(until):
                return False
        return True

    def step(self, until: float) -> bool:
        """Give one machine a turn, or move time; False when nothing happens any more until then."""
        random, runnable = self.random.random, [loop for loop in self.loops if loop._ready and not loop.halted]
        if not runnable:
            return self._move_time(until)
        loop = runnable[0] if len(runnable) == 1 else runnable[int(random() * len(runnable))]
        queued = len(loop._ready)
        if queued > 1 and len(runnable) > 1 and random() > WHOLE_TURNS:
            queued = 1 + int(random() * queued)
        loop.run_ready(queued)
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Spinning(f"{MOST_STEPS} turns at {self.now:.3f} s")
        return True

    def _move_time(self, until: float) -> bool:
        agenda = self._agenda
        when = agenda[0][0] if agenda else until + 1.0
        for loop in self.loops:
            timer = loop.next_timer()
            if timer is not None and timer < when:
                when = timer
        if when > until:
            self.now = max(self.now, until)
            return False
        if when > self.now:
            self.now, self._steps = when, 0
        while agenda and agenda[0][0] <= self.now:
            _, _, callback, args = heapq.heappop(agenda)
            callback(*args)
        for loop in self.loops:
            if not loop.halted:
                loop.queue_due(self.now)
        return True

    def block(self, loop: MachineLoop, until: float) -> None:
        """Code on this machine does not return before then; all other machines go on."""
        task = asyncio.current_task(loop)
        loop.hold()
        leave = getattr(asyncio.tasks, "_swap_current_task", None)
        if leave is not None:
            leave(loop, None)
        asyncio._set_running_loop(None)
        try:
            while self.step(until):
                pass
        finally:
            asyncio._set_running_loop(loop)
            if leave is not None:
                leave(loop, task)
            loop.let_go()
