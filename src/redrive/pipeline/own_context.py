"""Awaits a coroutine in a context of its own, without a task of its own.

What the coroutine sets in its context variables stays in it, as if it ran in a task; starting one, and waiting for the
event loop to come to it, would take longer than all the rest of a stage.
"""

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class InContext(Generic[T]):
    """`await InContext(coroutine, context)`"""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context

    def __await__(self) -> Generator[Any, Any, T]:
        run, coroutine = self._context.run, self._coroutine
        try:
            waits_for = run(coroutine.send, None)
            while True:
                try:
                    answer = yield waits_for
                except GeneratorExit:
                    run(coroutine.close)
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on to the coroutine, whatever it is
                    waits_for = run(coroutine.throw, error)
                else:
                    waits_for = run(coroutine.send, answer)
        except StopIteration as done:
            result: T = done.value
            return result
