"""What durable work does, attempt by attempt: a second stream, for metrics and spans.

It is apart from the events because there is one record for each attempt that succeeds. Without a listener nothing is
made and nothing is sent.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from redrive.failures.traces import trace_of

AttemptOutcome = Literal["succeeded", "failed", "timed_out", "lost", "returned", "cancelled"]
"""How an attempt ended. "returned": it was snoozed, or its worker stopped it, and it does not count."""
ItemOutcome = Literal["succeeded", "failed", "cancelled"]
FlowOutcome = Literal["completed", "failed", "cancelled"]


class FlowRef(NamedTuple):
    """A flow, as its spans and metrics name it."""

    id: str
    definition: str
    queue: str
    traceparent: str | None
    round: int
    """0, and one more for each time the flow was redriven after it had failed."""


class ItemRef(NamedTuple):
    flow: FlowRef
    number: int
    step: str
    position: int
    """Which item of a graph's step it is."""
    compensates: str
    round: int
    """0, and one more for each time the item was redriven."""


class AttemptRef(NamedTuple):
    item: ItemRef
    number: int
    delivery: str
    """The attempt's token. It is a secret: use it to tell attempts apart, and show it to nobody."""
    earlier: str | None
    """The token of the attempt before."""
    endpoint: str = ""
    """Where an HTTP step sends its request; it may hold secrets. Empty for an action."""


class Wait(NamedTuple):
    """The work stopped here, until when and why."""

    at: float
    kind: str
    """"retry", "deferred", "snooze", "timer", "paused", "parked", "redriven", ..."""
    until: float | None = None
    reason: str = ""


MOST_WAITS = 100


def with_wait(waits: Sequence[Wait], wait: Wait) -> Sequence[Wait]:
    """The waits and one more; of too many, some in the middle are left out."""
    kept = [*waits, wait]
    if len(kept) > MOST_WAITS:
        # The first and the latest are the most telling.
        del kept[MOST_WAITS // 2]
    return kept


class AttemptEnded(NamedTuple):
    attempt: AttemptRef
    began: float
    ended: float
    outcome: AttemptOutcome
    error_type: str = ""
    category: str = ""
    status: int | None = None
    """The status of an HTTP step's answer, where there was one."""


class ItemEnded(NamedTuple):
    item: ItemRef
    began: float
    """When the item was scheduled, or redriven."""
    ended: float
    outcome: ItemOutcome
    attempts: int
    waits: tuple[Wait, ...] = ()
    kind: str = ""
    """How it gave up, when it failed."""
    error_type: str = ""


class FlowEnded(NamedTuple):
    flow: FlowRef
    began: float
    ended: float
    outcome: FlowOutcome
    waits: tuple[Wait, ...] = ()
    kind: str = ""
    """Why it failed."""
    error_type: str = ""


Work = AttemptEnded | ItemEnded | FlowEnded
WorkListener = Callable[[Work], None]

LISTENERS: list[WorkListener] = []
"""Where it is empty, nothing need be told."""


def listen_to_work(listener: WorkListener) -> Callable[[], None]:
    """Call `listener` with what this process's workers do. Returns a function that stops it."""
    LISTENERS.append(listener)

    def stop() -> None:
        if listener in LISTENERS:
            LISTENERS.remove(listener)

    return stop


def tell(work: Work) -> None:
    """Pass it to all listeners. A failing listener does not affect the work."""
    for listener in tuple(LISTENERS):
        try:
            listener(work)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the work goes on
            logging.getLogger("redrive").error("a telemetry listener failed; the work goes on\n%s", trace_of(error))
