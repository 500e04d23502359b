"""Refuse to write to a store whose payloads this process cannot decode: it would write its own in clear."""

from typing import Final
from weakref import WeakSet

from redrive.errors import StoreUnusableError
from redrive.stores.encoded_text import how_to_decode, key_of
from redrive.stores.interface import Store
from redrive.stores.records import FlowQuery

_readable: Final[WeakSet[Store]] = WeakSet()


async def refuse_unreadable(store: Store) -> None:
    """Raise StoreUnusableError when the newest flow is encoded with a key that this process lacks. Asks once."""
    if store in _readable:
        return
    for newest in await store.list_flows(FlowQuery(limit=1)):
        if (key := key_of(newest.input)) is not None:
            raise StoreUnusableError(f"{store.address}: its payloads are {how_to_decode(key)}")
    _readable.add(store)
