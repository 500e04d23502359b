"""Long work over data that nobody changes, in a thread: the event loop goes on meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, ParamSpec, TypeVar

from redrive.determinism.clock import current_clock

T = TypeVar("T")
P = ParamSpec("P")

# One thread: each one more that computes makes the loop wait longer for the interpreter.
_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="redrive-render")


async def off_loop(is_long: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the work in a thread if it is long, one at a time; else at once, which is faster."""
    if not is_long:
        return work(*args, **kwargs)
    context = copy_context()
    with current_clock().busy():
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_thread, lambda: context.run(work, *args, **kwargs))
