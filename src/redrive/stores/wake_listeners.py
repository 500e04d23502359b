"""The callbacks that a store calls when there may be something to do, such as flows to claim or results to read."""

import asyncio
import contextlib
from collections.abc import Callable


class WakeListeners:
    """Calls each listener in the event loop that it was added in; `notify` may be called from any thread."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[asyncio.AbstractEventLoop | None, Callable[..., None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, wake: Callable[..., None]) -> Callable[[], None]:
        """Return a function that removes the listener again."""
        listener = object()
        self._listeners[listener] = (_current_loop(), wake)

        def remove() -> None:
            self._listeners.pop(listener, None)

        return remove

    def clear(self) -> None:
        self._listeners.clear()

    def notify(self, *args: object) -> None:
        """Call the listeners with these arguments."""
        if not self._listeners:
            return
        here = _current_loop()
        for loop, wake in list(self._listeners.values()):
            if loop is None or loop is here:
                wake(*args)
                continue
            # A closed loop has no listeners left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake, *args)


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
