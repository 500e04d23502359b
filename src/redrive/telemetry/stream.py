"""The event stream: every event is emitted here, and logs, metrics and hooks listen."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from redrive.failures.redaction import redact
from redrive.failures.traces import trace_of
from redrive.telemetry.events import Event

Listener = Callable[[Event], None]

_listeners: tuple[Listener, ...] = ()
_hooks_only: ContextVar[bool] = ContextVar("redrive_hooks_only", default=False)
_correlation_id: ContextVar[str | None] = ContextVar("redrive_correlation_id", default=None)


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` with every event of this process. Returns a function that stops it."""
    global _listeners
    _listeners = (*_listeners, listener)
    listening = True

    def stop() -> None:
        global _listeners
        nonlocal listening
        if listening:
            listening = False
            # Remove one only: the same listener may be registered twice, and each registration stops by itself.
            others = list(_listeners)
            others.remove(listener)
            _listeners = tuple(others)

    return stop


def emit(event: Event, *own: Listener) -> None:
    """Pass an event to all listeners and to the caller's `own` hooks. A failing listener does not affect the others."""
    for listener in own if _hooks_only.get() else (*own, *_listeners):
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the other listeners get the event
            name = getattr(listener, "__name__", type(listener).__name__)
            logging.getLogger("redrive").error(
                "event listener %s failed; the call continues\n%s", name, trace_of(error)
            )


@contextmanager
def hooks_only() -> Iterator[None]:
    """Pass events to the caller's own hooks only: for internal calls that redrive reports in other ways."""
    token = _hooks_only.set(True)
    try:
        yield
    finally:
        _hooks_only.reset(token)


def correlation_id() -> str | None:
    return _correlation_id.get()


@contextmanager
def correlate(id: object) -> Iterator[None]:  # noqa: A002 - `correlate(id=...)` is what callers would write
    """Add `id`, such as a request id, to every event and log record of the block."""
    if id is None:
        raise TypeError("correlate: None is not an id; use text, a UUID or a number, or omit the block")
    # Ids often come from a request header, which may contain anything.
    token = _correlation_id.set(redact(str(id), limit=200))
    try:
        yield
    finally:
        _correlation_id.reset(token)
