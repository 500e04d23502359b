"""Await a coroutine in a context of its own, without creating a task.

Context variables that the coroutine sets stay in its context, as in a task. A task, which the event loop has to
schedule, would cost more than everything else around a stage.
"""

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AwaitInContext(Generic[T]):
    """`await AwaitInContext(coroutine, context)`"""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context

    def __await__(self) -> Generator[Any, Any, T]:
        run, coroutine = self._context.run, self._coroutine
        try:
            awaited = run(coroutine.send, None)
            while True:
                try:
                    result = yield awaited
                except GeneratorExit:
                    run(coroutine.close)
                    raise
                except BaseException as error:  # noqa: BLE001 - passed on to the coroutine, whatever it is
                    awaited = run(coroutine.throw, error)
                else:
                    awaited = run(coroutine.send, result)
        except StopIteration as done:
            value: T = done.value
            return value
