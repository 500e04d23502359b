"""The tracer of this process, where one is installed: `redrive.integrations.opentelemetry` does that."""

import logging
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from redrive.failures.traces import trace_of
from redrive.telemetry.work import AttemptRef

P = ParamSpec("P")
T = TypeVar("T")


class Tracer(Protocol):
    def current_traceparent(self) -> str | None:
        """The context of the caller's current span."""

    def attempt_began(self, attempt: AttemptRef, at: float) -> str | None:
        """The context of the span of an attempt that begins; None when it is not traced."""

    def enter(self, delivery: str, traceparent: str) -> None:
        """Make the attempt's span the current one of this thread or task, until that ends."""

    def forget(self, delivery: str) -> None:
        """The attempt runs no longer. Its span is dropped unless it has ended."""


class _Harmless:
    """The same, but where the tracer raises, as a sampler may, nothing is traced and the work goes on."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def current_traceparent(self) -> str | None:
        return _try(self._tracer.current_traceparent)

    def attempt_began(self, attempt: AttemptRef, at: float) -> str | None:
        return _try(self._tracer.attempt_began, attempt, at)

    def enter(self, delivery: str, traceparent: str) -> None:
        _try(self._tracer.enter, delivery, traceparent)

    def forget(self, delivery: str) -> None:
        _try(self._tracer.forget, delivery)


def _try(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    try:
        return call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever it raises, the work goes on
        logging.getLogger("redrive").error("the tracer failed; the work goes on\n%s", trace_of(error))
        return None


_tracer: Tracer | None = None


def install_tracer(tracer: Tracer) -> Callable[[], None]:
    """Use this tracer from now on. Returns a function that stops it."""
    global _tracer
    _tracer = installed = _Harmless(tracer)

    def stop() -> None:
        global _tracer
        if _tracer is installed:
            _tracer = None

    return stop


def current_tracer() -> Tracer | None:
    return _tracer


def current_traceparent() -> str | None:
    """The W3C trace context of the current span; None where nothing is traced."""
    return None if _tracer is None else _tracer.current_traceparent()
