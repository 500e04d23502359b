"""The messages that a flow's inbox takes for its owner."""

from typing import Literal

import msgspec

from redrive.failures.failure import Failure
from redrive.flows.values.json_form import is_storable


def check_by_and_why(by: str, why: str) -> None:
    """Raise TypeError or ValueError unless both texts can be stored."""
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string, not {type(text).__name__}")
        if not is_storable(text):
            raise ValueError(f"{name} contains NUL or unpaired surrogates, which cannot be stored; remove them")


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    by: str = ""
    """Who sent it."""
    why: str = ""

    def __post_init__(self) -> None:
        check_by_and_why(self.by, self.why)


class Cancel(Message, frozen=True):
    force: bool = False
    """End the flow immediately: none of its code runs any more, not even to clean up."""


class Pause(Message, frozen=True):
    pass


class Resume(Message, frozen=True):
    pass


class RetryNow(Message, frozen=True):
    """Begin the next attempts now, instead of at the times for which they wait."""


class ChangePolicy(Message, frozen=True):
    """Follow another retry policy from now on."""

    policy: msgspec.Raw
    """In redrive's own notation."""
    replaces: bool = False
    """Whether it replaces the policy; otherwise only the fields that it names."""
    step: str = ""
    """Only the work items of this step; empty: all that are open."""


class Redrive(Message, frozen=True):
    with_parent: bool = False
    """The flow is redriven along with its parent, which awaits it again."""


class ResetItem(Message, frozen=True):
    """Retry a waiting or failed item now, with all its attempts available again."""

    item: int


class CompleteItem(Message, frozen=True):
    """Complete the item with this result."""

    item: int
    result: msgspec.Raw


class ResolveItem(Message, frozen=True):
    """Close the item without a result."""

    item: int


ManualResolution = ResetItem | CompleteItem | ResolveItem


class Completion(Message, frozen=True):
    """The outcome of an accepted attempt, reported by the holder of its delivery token."""

    item: int
    delivery: str
    outputs: msgspec.Raw = msgspec.Raw(b"null")
    failure: Failure | None = None
    """None when the attempt succeeded."""


class ChildEnded(Message, frozen=True):
    """A child flow has ended, or was not started; sent to its parent in the transaction that ends it."""

    flow: str
    """The child's id."""
    outcome: Literal["completed", "failed", "cancelled", "refused"]
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Left out where it is large; the child's log has it."""
    error: str = ""
    """The type of its error."""
    message: str = ""


class Signal(Message, frozen=True):
    """Something that the flow's code may wait for, or has a handler for."""

    id: str
    """Made by the sender: a signal that is sent again, because an answer was lost, has the same."""
    name: str
    args: msgspec.Raw = msgspec.Raw(b"{}")
    """The arguments by name, as a JSON object."""


class Update(Signal, frozen=True):
    """A signal that is answered."""


AnyMessage = (
    Cancel
    | Pause
    | Resume
    | RetryNow
    | ChangePolicy
    | Redrive
    | ResetItem
    | CompleteItem
    | ResolveItem
    | Completion
    | Signal
    | Update
    | ChildEnded
)
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


def write_message(message: AnyMessage) -> str:
    return msgspec.json.encode(message).decode()


def read_message(body: str) -> AnyMessage:
    return _DECODER.decode(body)
