"""Redrive or discard many dead letters, a few hundred at a time."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from redrive.errors import InvalidStateError

CLOSED_AT_ONCE = 500


async def close_in_parts(
    verb: Callable[..., Awaitable[list[str]]],
    flow_ids: Sequence[str],
    audited: Callable[[Sequence[str]], AbstractAsyncContextManager[None]],
    **said: str,
) -> list[str]:
    """Call `verb` (redrive or discard) for all flows; InvalidStateError only when it was possible for none of them.

    audited: records the flows of a part in the audit log, then lets the block close them.
    """
    closed: list[str] = []
    refused: InvalidStateError | None = None
    for first in range(0, len(flow_ids), CLOSED_AT_ONCE):
        part = flow_ids[first : first + CLOSED_AT_ONCE]
        try:
            async with audited(part):
                closed += await verb(part, **said)
        except InvalidStateError as error:
            refused = error
    if refused is not None and not closed:
        raise refused
    return closed
