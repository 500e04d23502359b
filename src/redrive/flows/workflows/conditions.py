"""What a flow's code waits for besides actions and timers: conditions, and signals in its mailbox."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any

import msgspec

from redrive.flows.errors.item_error import as_exception
from redrive.flows.message_events import SignalWait
from redrive.formatting.times import format_duration


class Condition(msgspec.Struct, eq=False):
    """A predicate that some task waits for."""

    predicate: Callable[[], Any]
    future: "asyncio.Future[None]"
    context: Context
    wait: SignalWait


class Conditions:
    """The conditions of one flow, in the order in which its code came to them."""

    __slots__ = ("_open", "handled", "mailbox")

    def __init__(self) -> None:
        self._open: list[Condition] = []
        self.handled: Sequence[str] = ()
        """The signals that the workflow has handlers for."""
        self.mailbox: dict[str, deque[Any]] = {}
        """The arguments of the signals that no handler took, by name, until `receive` takes them."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def fire(self) -> None:
        """Wake the first task whose condition is true.

        Only that one: once it has run, another condition may no longer be true.
        """
        for condition in tuple(self._open):
            if condition.future.done():
                continue
            try:
                if not condition.context.run(_holds, condition.predicate):
                    continue
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the code that waits
                condition.future.set_exception(as_exception(error, "wait_for"))
            else:
                condition.future.set_result(None)
            return

    def waits(self) -> tuple[SignalWait, ...]:
        return tuple(one.wait for one in self._open)

    def unread(self) -> list[str]:
        """The names of the signals that are left in the mailbox."""
        return [name for name, signals in self.mailbox.items() for _ in signals]

    def left(self) -> list[tuple[str, str]]:
        """The signals that are left in the mailbox, each with its arguments as JSON."""
        return [
            (name, msgspec.json.encode(args).decode()) for name, signals in self.mailbox.items() for args in signals
        ]

    async def wait_for(
        self,
        predicate: Callable[[], Any],
        timeout: float | None,
        what: str,
        wait: SignalWait,
    ) -> None:
        """Wait until the predicate is true; TimeoutError after `timeout` seconds."""
        if _holds(predicate):
            return
        condition = Condition(predicate, asyncio.get_running_loop().create_future(), copy_context(), wait)
        self._open.append(condition)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await condition.future
        except TimeoutError:
            if timeout is None or not limit.expired():
                raise
            raise TimeoutError(f"{what} within {format_duration(timeout)}") from None
        finally:
            self._open.remove(condition)


def _holds(predicate: Callable[[], Any]) -> bool:
    answer = predicate()
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError("wait_for needs a plain function, such as `lambda: self.approved`, not one that is awaited")
    return bool(answer)
