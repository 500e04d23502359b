"""Which async library runs this code, found without importing one that is not in use."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any


def under_trio() -> bool:
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return False
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def sleep_function() -> Callable[[float], Awaitable[Any]]:
    if under_trio():
        import trio

        return trio.sleep
    import asyncio

    return asyncio.sleep
