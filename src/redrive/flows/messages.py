"""What may be left in a flow's inbox for its owner."""

import msgspec

from redrive.failures.failure import Failure
from redrive.flows.signatures import check_signature


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    by: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        check_signature(self.by, self.why)


class Cancel(Message, frozen=True):
    force: bool = False
    """End it at once: none of its code runs any more, not even to clean up."""


class Pause(Message, frozen=True):
    pass


class Resume(Message, frozen=True):
    pass


class Redrive(Message, frozen=True):
    pass


class ResetItem(Message, frozen=True):
    """Try an item again, now and with a fresh allowance: one that waits, or that has failed."""

    item: int


class CompleteItem(Message, frozen=True):
    """The item is done, and this is its result."""

    item: int
    result: msgspec.Raw


class ResolveItem(Message, frozen=True):
    """The item is settled, and has no result."""

    item: int


ManualResolution = ResetItem | CompleteItem | ResolveItem


class Completion(Message, frozen=True):
    """How an attempt ended that was accepted earlier, told by whoever holds its token."""

    item: int
    delivery: str
    outputs: msgspec.Raw = msgspec.Raw(b"null")
    failure: Failure | None = None
    """None: it succeeded."""


AnyMessage = Cancel | Pause | Resume | Redrive | ResetItem | CompleteItem | ResolveItem | Completion
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


def write_message(message: AnyMessage) -> str:
    return msgspec.json.encode(message).decode()


def read_message(body: str) -> AnyMessage:
    return _DECODER.decode(body)
