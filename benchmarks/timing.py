"""Time calls so that systems compare fairly: loops of their own, rounds that alternate, the best round counts."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

# One round of one system: long against the clock's resolution, and shorter than the slice of time that a busy machine
# gives a process, so that some rounds run undisturbed.
ROUND_SECONDS = 0.001

_SYNC_LOOP = """
def loop(call, count, clock):
    steps = range(count)
    began = clock()
    for _ in steps:
        call()
    return clock() - began
"""

_ASYNC_LOOP = """
async def loop(call, count, clock):
    steps = range(count)
    began = clock()
    for _ in steps:
        await call()
    return clock() - began
"""

_TIMED_IMPORT = "from time import perf_counter as t; b = t(); import {module}; print(t() - b)"


def compiled(source: str, name: str) -> Callable[..., Any]:
    """A function compiled afresh: the interpreter adapts code to its use, so no two systems may share any."""
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{name}>", "exec"), namespace)  # noqa: S102 - the sources are the constants of this package
    made: Callable[..., Any] = namespace[name]
    return made


def best_seconds(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds that one call takes, by name: the best of many rounds in which all take turns."""
    loops = {name: compiled(_SYNC_LOOP, "loop") for name in calls}

    def measure(name: str, count: int) -> float:
        seconds: float = loops[name](calls[name], count, perf_counter)
        return seconds

    counts = {name: _count_for_a_round(partial(measure, name)) for name in calls}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        with _NoCollector():
            for name, count in counts.items():
                best[name] = min(best[name], measure(name, count) / count)
    return best


def best_async_seconds(calls: Mapping[str, Callable[[], Awaitable[Any]]], rounds: int) -> dict[str, float]:
    """The same for coroutine functions, all in one event loop."""
    loops = {name: compiled(_ASYNC_LOOP, "loop") for name in calls}

    async def measure_all() -> dict[str, float]:
        counts = {}
        for name, call in calls.items():
            count = 10
            while await loops[name](call, count, perf_counter) < ROUND_SECONDS:
                count *= 2
            counts[name] = count
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(rounds):
            with _NoCollector():
                for name, call in calls.items():
                    seconds = await loops[name](call, counts[name], perf_counter)
                    best[name] = min(best[name], seconds / counts[name])
        return best

    return asyncio.run(measure_all())


def best_import_seconds(modules: Mapping[str, str], rounds: int) -> dict[str, float]:
    """Seconds that importing each module takes in an interpreter that has just started, by the name given to it."""
    best = dict.fromkeys(modules, float("inf"))
    for _ in range(rounds):
        for name, module in modules.items():
            command = [sys.executable, "-c", _TIMED_IMPORT.format(module=module)]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            best[name] = min(best[name], float(printed))
    return best


def _count_for_a_round(measure: Callable[[int], float]) -> int:
    count = 10
    while measure(count) < ROUND_SECONDS:
        count *= 2
    return count


class _NoCollector:
    """Keep the garbage collector out of a round, as `timeit` does; what the round before left is collected first."""

    def __enter__(self) -> None:
        gc.collect()
        # What is there by now stays: looking through it again would take longer than a round.
        gc.freeze()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
