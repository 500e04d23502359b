"""Write the audit log: each change is recorded before it is made."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from redrive.client.app import App
from redrive.errors import StoreError
from redrive.failures.redaction import redact
from redrive.stores.audit import AuditEntry

LONGEST_NAME = 200
LONGEST_CLAIM = 80
"""The longest name that a caller can give; longer ones are cut."""
LONGEST_ACTOR = 400
LONGEST_DETAIL = 500


@asynccontextmanager
async def audited(
    app: App,
    action: str,
    target: str | Sequence[str],
    *,
    actor: str,
    by: str = "",
    origin: str,
    detail: str = "",
    describe: Callable[[Exception], str] = str,
) -> AsyncIterator[None]:
    """Write the entry, then run the block: nothing is done that is not in the log.

    target: what it is done to; if to several, each has an entry, all written in one transaction.
    actor: who does it, as authenticated; by: the name that they gave.
    If the block raises, another entry for each says that it was refused, in the words of `describe`.
    """
    # Only the name given is redacted: together with the rest, it could make the rest look like a secret.
    who = f"{actor}, as {redact(by, LONGEST_CLAIM)!r}" if by else actor

    async def write(text: str) -> None:
        # Redaction also limits the length.
        entry = AuditEntry(
            at=app.now(),
            actor=who[:LONGEST_ACTOR],
            origin=redact(origin, LONGEST_NAME),
            action=action,
            target="",
            detail=redact(text, LONGEST_DETAIL),
        )
        targets = [target] if isinstance(target, str) else target
        await app.store.add_audit_entries(
            [msgspec.structs.replace(entry, target=redact(one, LONGEST_NAME)) for one in targets]
        )

    await write(detail)
    try:
        yield
    except Exception as error:
        with suppress(StoreError):
            await write(f"refused: {describe(error)}")
        raise
