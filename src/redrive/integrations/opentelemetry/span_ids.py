"""The ids of spans, computed from what they are about: every worker knows the id of a span that another one ends."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redrive.telemetry.work import FlowRef, ItemRef


def trace_id_of(flow: FlowRef) -> int:
    """The trace of a flow that was started outside of any trace."""
    return _number(16, "trace", flow.id)


def flow_span_id(flow: FlowRef, round: int | None = None) -> int:  # noqa: A002 - the field's name
    return _number(8, "flow", flow.id, flow.round if round is None else round)


def item_span_id(item: ItemRef) -> int:
    return _number(8, "item", item.flow.id, item.flow.round, item.number, item.round)


def attempt_span_id(delivery: str) -> int:
    # A hash, since the token itself is a secret.
    return _number(8, "attempt", delivery)


def _number(size: int, *parts: object) -> int:
    text = "\0".join(map(str, parts)).encode()
    # 0 is not a valid id.
    return int.from_bytes(hashlib.blake2b(text, digest_size=size, person=b"redrive").digest()) or 1


class ComputedIds:
    """An id generator of the OpenTelemetry SDK that returns computed ids where there are some."""

    def __init__(self, others: Any) -> None:
        """others: the generator of all other ids."""
        self._others = others
        self._next = threading.local()

    @contextmanager
    def fixed(self, trace_id: int, span_id: int) -> Iterator[None]:
        """The span that is started in this block gets these ids; the trace's only if it has no parent."""
        self._next.ids = trace_id, span_id
        try:
            yield
        finally:
            self._next.ids = None

    def generate_trace_id(self) -> int:
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return int(self._others.generate_trace_id()) if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return int(self._others.generate_span_id()) if ids is None else ids[1]

    def is_trace_id_random(self) -> bool:
        return getattr(self._next, "ids", None) is None and bool(self._others.is_trace_id_random())
