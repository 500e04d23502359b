"""API keys: `rdk_<id>_<secret>`. The store keeps only a digest of the secret."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, get_args

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.ids import random_token
from redrive.errors import StoreError
from redrive.server.access.closed_store import keep_closed, without_mark
from redrive.stores.interface import Store
from redrive.stores.registry_rows import KeyRow

Role = Literal["read", "read:payload", "operate", "admin"]
"""Each may do what those before it may. read: look, without payloads. read:payload: also see arguments, results and
messages. operate: also start and control flows. admin: also the catalogue, the limits of queues, and the audit log."""
ROLES: tuple[Role, ...] = get_args(Role)
_KEY = re.compile(r"rdk_([0-9a-f]{12})_([0-9a-f]{64})")
_USE_INTERVAL = 60.0
"""Seconds after which the last use of a key is written again."""


class Caller(msgspec.Struct, frozen=True):
    """The authenticated sender of a request."""

    role: Role
    id: str = ""
    """The id of the API key; empty for a caller on this machine, where no keys are needed."""
    name: str = ""
    queues: tuple[str, ...] = ()
    """The queues whose flows the caller may see and use; empty: all."""
    definitions: tuple[str, ...] = ()
    """The definitions whose flows the caller may see and use, with or without their kind; empty: all."""
    session: str = ""
    """The session of the dashboard in which the caller acts; empty if the key itself was sent."""

    def has_role(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def sees_payloads(self) -> bool:
        return self.has_role("read:payload")

    @property
    def is_limited(self) -> bool:
        return bool(self.queues or self.definitions)

    def may_use(self, queue: str, definition: str) -> bool:
        """Whether flows of this queue and definition are within the limits of the key."""
        if self.queues and queue not in self.queues:
            return False
        names = (definition, definition.partition(":")[2])
        return not self.definitions or any(one in self.definitions for one in names)


def new_key(
    name: str,
    role: Role,
    now: float,
    *,
    queues: Sequence[str] = (),
    definitions: Sequence[str] = (),
    expires_at: float | None = None,
) -> tuple[KeyRow, str]:
    """Return the row to store, and the key itself, which is kept nowhere."""
    id_, secret = random_token()[:12], random_token() + random_token()
    row = KeyRow(
        id=id_,
        name=name,
        role=role,
        digest=_digest(secret),
        created_at=now,
        queues=tuple(queues),
        definitions=tuple(definitions),
        expires_at=expires_at,
    )
    return row, f"rdk_{id_}_{secret}"


class ApiKeys:
    """The store's API keys, cached for a few seconds: a revoked key may be accepted for that long."""

    def __init__(self, store: Store, cache_for: float) -> None:
        self._store = store
        self._cache_for = cache_for
        self._keys: dict[str, KeyRow] = {}
        self._expires = float("-inf")
        self._marked: dict[str, float] = {}
        """When the last use of a key was written."""
        self._are_required = False

    async def are_required(self) -> bool:
        """Whether there are keys, valid or expired, or were before the last one was revoked."""
        await self._refresh()
        return self._are_required

    async def caller(self, token: str) -> Caller | None:
        """Return the holder of a key, or None if the key is unknown or has expired."""
        await self._refresh()
        found = _KEY.fullmatch(token)
        row = self._keys.get(found[1]) if found else None
        digest = _digest(found[2]) if found else ""
        if row is None or not hmac.compare_digest(row.digest, digest) or row.role not in ROLES or _has_expired(row):
            return None
        await self.note_use(row.id)
        return Caller(row.role, row.id, row.name, row.queues, row.definitions)

    async def still_valid(self, caller: Caller) -> bool:
        """Whether the caller's key has neither been revoked nor expired; without a key, whether none is needed yet."""
        if not caller.id:
            return not await self.are_required()
        await self._refresh()
        row = self._keys.get(caller.id)
        return row is not None and not _has_expired(row)

    async def note_use(self, id_: str) -> None:
        """Record that the key was used now, to about a minute."""
        row, now = self._keys.get(id_), SYSTEM_CLOCK.wall()
        if row is not None and now - max(row.used_at or 0.0, self._marked.get(id_, 0.0)) >= _USE_INTERVAL:
            self._marked[id_] = now
            # Who is let in does not depend on whether that can be noted.
            with suppress(StoreError):
                await self._store.mark_keys_used({id_: now})

    async def _refresh(self) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if now >= self._expires:
            rows = await self._store.list_keys()
            self._keys = {row.id: row for row in without_mark(rows)}
            if len(self._keys) == len(rows) > 0:
                await keep_closed(self._store)
            self._are_required = bool(rows)
            self._marked = {id_: at for id_, at in self._marked.items() if id_ in self._keys}
            self._expires = now + self._cache_for


def _has_expired(row: KeyRow) -> bool:
    return row.expires_at is not None and SYSTEM_CLOCK.wall() >= row.expires_at


def _digest(secret: str) -> str:
    # A secret of 256 random bits cannot be guessed, so it needs no slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()
