"""The events about signals, which reach a flow from outside."""

import msgspec

from redrive.flows.event import Event


class SignalReceived(Event, frozen=True):
    """A signal reached the flow's code. An activation."""

    id: str
    """Made by the sender, who may send the signal twice when an answer was lost: it is received once."""
    signal: str
    """The name of the signal."""
    args: msgspec.Raw
    by: str = ""
    mailbox: bool = False
    """Whether `receive` takes it; otherwise, the workflow's @signal method of this name got it."""


class SignalBuffered(Event, frozen=True):
    """A signal came while the flow could not take it; `SignalReceived` follows when the flow begins or goes on."""

    id: str
    signal: str
    args: msgspec.Raw
    by: str = ""


class SignalRefused(Event, frozen=True):
    """The arguments of a signal do not fit its handler: the flow's code never sees it."""

    id: str
    signal: str
    why: str


class SignalWait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the flow's code that waits for signals."""

    signals: tuple[str, ...] = ()
    """The signals that may end the wait."""
    where: str = ""
    """The line of the code."""
    until: float | None = None
    """When the wait times out."""
    is_receive: bool = False
    """Whether it takes the signal from the mailbox; otherwise it waits for a condition, whatever makes it true."""


class SignalsAwaited(Event, frozen=True):
    """What the flow waits for has changed: from now on it is this. For readers of the log; a replay ignores it."""

    waits: tuple[SignalWait, ...] = ()


class SignalsUnread(Event, frozen=True):
    """The flow ends, and has not read these signals."""

    signals: tuple[str, ...]
    """Their names, in the order in which they came; at most 100."""


MessageEvent = SignalReceived | SignalBuffered | SignalRefused | SignalsAwaited | SignalsUnread
