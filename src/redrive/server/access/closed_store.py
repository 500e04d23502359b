"""Record in the store that it had API keys, so that the server keeps requiring one after the last is revoked."""

from collections.abc import Iterable

from redrive.errors import RedriveError
from redrive.stores.interface import Store
from redrive.stores.registry_rows import KeyRow

_MARK = KeyRow(id="closed", name="closed", role="none", digest="", created_at=0.0)
"""A row among the keys that matches no key: its id and its digest do not have the form of a key's."""


def is_mark(row: KeyRow) -> bool:
    return row.id == _MARK.id


def without_mark(rows: Iterable[KeyRow]) -> list[KeyRow]:
    """Return the rows that are keys."""
    return [row for row in rows if not is_mark(row)]


async def keep_closed(store: Store) -> None:
    """Make the server require a key even when there are no more keys, until `reopen`."""
    if not any(is_mark(row) for row in await store.list_keys()):
        try:
            await store.add_key(_MARK)
        except RedriveError:
            # Someone else has added it in the same moment.
            if not any(is_mark(row) for row in await store.list_keys()):
                raise


async def reopen(store: Store) -> bool:
    """Let a server on loopback serve this machine without keys again; False if it does already."""
    return await store.drop_key(_MARK.id)
