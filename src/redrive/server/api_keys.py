"""API keys: `rdk_<id>_<secret>`. The store keeps only a digest of the secret."""

import hashlib
import hmac
import re
from typing import Literal, get_args

import msgspec

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.determinism.ids import random_token
from redrive.stores.interface import Store
from redrive.stores.records import KeyRow

Role = Literal["read", "operate", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_KEY = re.compile(r"rdk_([0-9a-f]{12})_([0-9a-f]{64})")


class Caller(msgspec.Struct, frozen=True):
    """The authenticated sender of a request."""

    role: Role
    id: str = ""
    """The id of the API key; empty for a caller on this machine, where no keys are needed."""
    name: str = ""

    def has_role(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def new_key(name: str, role: Role, now: float) -> tuple[KeyRow, str]:
    """Return the row to store, and the key itself, which is kept nowhere."""
    id_, secret = random_token()[:12], random_token() + random_token()
    return KeyRow(id=id_, name=name, role=role, digest=_digest(secret), created_at=now), f"rdk_{id_}_{secret}"


class ApiKeys:
    """The store's API keys, cached for a few seconds: a revoked key may be accepted for that long."""

    def __init__(self, store: Store, cache_for: float) -> None:
        self._store = store
        self._cache_for = cache_for
        self._keys: dict[str, KeyRow] = {}
        self._expires = float("-inf")

    async def exist(self) -> bool:
        await self._refresh()
        return bool(self._keys)

    async def caller(self, token: str) -> Caller | None:
        """Return the holder of a key, or None if the key is unknown."""
        await self._refresh()
        found = _KEY.fullmatch(token)
        row = self._keys.get(found[1]) if found else None
        digest = _digest(found[2]) if found else ""
        if row is None or not hmac.compare_digest(row.digest, digest) or row.role not in ROLES:
            return None
        return Caller(row.role, row.id, row.name)

    async def still_valid(self, caller: Caller) -> bool:
        """Whether the caller's key has not been revoked."""
        if not caller.id:
            return True
        await self._refresh()
        return caller.id in self._keys

    async def _refresh(self) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if now >= self._expires:
            self._keys = {row.id: row for row in await self._store.list_keys()}
            self._expires = now + self._cache_for


def _digest(secret: str) -> str:
    # A secret of 256 random bits cannot be guessed, so it needs no slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()
