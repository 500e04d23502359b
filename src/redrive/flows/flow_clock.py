"""The clock inside a flow: the time of the event that its code answers."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NoReturn, TypeVar

from redrive.determinism.event_loops import AsyncioCut, Late

if TYPE_CHECKING:
    from redrive.flows.loop import FlowLoop

T = TypeVar("T")


class FlowClock:
    """What guarded calls in a flow's code read and wait by; waits are durable timers."""

    def __init__(self, loop: "FlowLoop") -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def wall(self) -> float:
        return self._loop.now

    async def asleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self._loop.now))  # noqa: TID251 - on the flow's loop this is a durable timer

    def cut_at(self, when: float, late: Late | None = None) -> AbstractContextManager[None]:
        return AsyncioCut(max(0.0, when - self._loop.now))

    def alarm(self, when: float, ring: Callable[[], None]) -> Callable[[], None]:
        handle = self._loop.call_at(when, ring)
        cancel: Callable[[], None] = handle.cancel
        return cancel

    def busy(self) -> AbstractContextManager[None]:
        return nullcontext()

    def sleep_until(self, when: float) -> NoReturn:
        raise _blocking()

    def call_until(self, when: float, work: Callable[[], T]) -> NoReturn:
        raise _blocking()


def _blocking() -> RuntimeError:
    return RuntimeError("a workflow cannot block: await asyncio.sleep(...), or put the call into an @action")
