"""The messages between a worker and its processes: JSON, each preceded by its length."""

from typing import Final

import msgspec

from redrive.flows.errors.stored_error import StoredError

LENGTH_BYTES: Final = 4
"""The size of the length before each message, a big-endian number."""
MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Longer messages are never sent: results and arguments are bounded."""
LOADED_MAIN: Final = "__redrive_main__"
"""The module name of the worker's program in a process that cannot import it by another name."""


class AttemptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a process to make one attempt."""

    action: str
    module: str
    file: str | None
    """The module's file, in case it cannot be found by its name."""
    qualname: str
    arguments: msgspec.Raw
    flow_id: str
    item: int
    step: str
    number: int
    delivery_token: str
    policy: msgspec.Raw
    timeout: float | None
    timeout_at: float | None
    details: msgspec.Raw
    traceparent: str | None = None
    log_level: int | None = None
    """The level of the worker's log lines on stderr; None: the worker leaves logging to its program."""


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """A heartbeat of the current attempt."""

    details: msgspec.Raw


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The last message of an attempt that returned."""

    result: msgspec.Raw


class Raised(msgspec.Struct, frozen=True, tag=True):
    """The last message of an attempt that raised."""

    error: StoredError


class NotImportable(ImportError):
    """The process cannot import the action."""

    def __init__(self, action: str, why: str) -> None:
        super().__init__(
            f"action {action} cannot run in a process of its own: {why}; "
            "put it at module level in a module that can be imported, and what starts the app under "
            '`if __name__ == "__main__":`'
        )


def framed(message: AttemptRequest | Heartbeat | Returned | Raised) -> bytes:
    """Return the message as it is sent."""
    text = msgspec.json.encode(message)
    return len(text).to_bytes(LENGTH_BYTES) + text
