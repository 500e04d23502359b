"""The one seam through which events leave: whoever wants them listens here."""

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
    """Have `listener` called with every event of this process; what is returned ends that."""
    global _listeners
    _listeners = (*_listeners, listener)
    listening = True

    def stop() -> None:
        global _listeners
        nonlocal listening
        if listening:
            listening = False
            # One of them only: the same listener may listen twice, and each time is ended by itself.
            others = list(_listeners)
            others.remove(listener)
            _listeners = tuple(others)

    return stop


def emit(event: Event, *own: Listener) -> None:
    """Hand an event to everyone who listens, and to the caller's `own` hooks. A failing listener harms no one else."""
    for listener in own if _hooks_only.get() else (*own, *_listeners):
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are told
            name = getattr(listener, "__name__", type(listener).__name__)
            logging.getLogger("redrive").error(
                "the event listener %s failed; the call goes on\n%s", name, trace_of(error)
            )


@contextmanager
def hooks_only() -> Iterator[None]:
    """Tell the caller's own hooks alone: for what redrive does for itself, and tells in its own words."""
    token = _hooks_only.set(True)
    try:
        yield
    finally:
        _hooks_only.reset(token)


def correlation_id() -> str | None:
    return _correlation_id.get()


@contextmanager
def correlate(id: object) -> Iterator[None]:  # noqa: A002 - `correlate(id=...)` is what callers would write
    """Put `id` (a request id, a UUID say) into every event and log record made inside the block."""
    if id is None:
        raise TypeError("correlate: None is not an id; use text, a UUID or a number, or leave the block out")
    # Ids often come from a caller's header, and callers put anything there.
    token = _correlation_id.set(redact(str(id), limit=200))
    try:
        yield
    finally:
        _correlation_id.reset(token)
