"""A flow's signals: which it has had, which wait for it, and which it waits for."""

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from redrive.flows.message_events import (
    MessageEvent,
    SignalBuffered,
    SignalReceived,
    SignalRefused,
    SignalsAwaited,
    SignalWait,
    UpdateAccepted,
    UpdateRefused,
)

_NONE: Mapping[str, SignalBuffered] = MappingProxyType({})


class MessageHistory:
    """The state of a flow's signals after the events applied so far. Most flows have none."""

    __slots__ = ("awaited", "buffered", "known")

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known: Set[str] = set(known) or frozenset()
        """The ids of the signals that the log has."""
        self.buffered: Mapping[str, SignalBuffered] = _NONE
        """The signals that the flow's code has yet to receive, by id, in order."""
        self.awaited: tuple[SignalWait, ...] = ()

    def apply(self, event: MessageEvent) -> None:
        if isinstance(event, SignalsAwaited):
            self.awaited = event.waits
        elif isinstance(event, SignalReceived | SignalBuffered | SignalRefused | UpdateAccepted | UpdateRefused):
            if not isinstance(self.known, set):
                self.known = set()
            self.known.add(event.id)
            if not isinstance(self.buffered, dict):
                self.buffered = {}
            if isinstance(event, SignalBuffered):
                self.buffered[event.id] = event
            else:
                self.buffered.pop(event.id, None)
