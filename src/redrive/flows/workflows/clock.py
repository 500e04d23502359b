"""The clock inside a flow, which shows the time of the event that the flow's code handles."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn, TypeVar

from redrive.determinism.event_loops import AsyncioCut, Late

T = TypeVar("T")


class FlowClock:
    """The clock of guarded calls in a flow's code: each wait is a durable timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        return self._loop.time()

    async def asleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self._loop.time()))  # noqa: TID251 - a durable timer, on the flow's loop

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        return AsyncioCut(max(0.0, when - self._loop.time()))

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_at(when, ring).cancel

    def busy(self) -> AbstractContextManager[None]:
        return nullcontext()

    def sleep_until(self, when: float) -> NoReturn:
        raise _blocking()

    def call_until(self, when: float, work: Callable[[], T]) -> NoReturn:
        raise _blocking()


def _blocking() -> RuntimeError:
    return RuntimeError("a workflow cannot block: use `await asyncio.sleep(...)`, or move the call into an @action")
