"""API keys: `rdk_<id>_<secret>`. The store keeps a digest only, so that whoever reads it cannot get in."""

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
    """Who asks."""

    role: Role
    id: str = ""
    """Of the key; empty for someone on this machine, where no keys are needed."""
    name: str = ""

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def new_key(name: str, role: Role, now: float) -> tuple[KeyRow, str]:
    """The row to keep, and the key itself, which is nowhere else."""
    id_, secret = random_token()[:12], random_token() + random_token()
    return KeyRow(id=id_, name=name, role=role, digest=_digest(secret), created_at=now), f"rdk_{id_}_{secret}"


class KeyRing:
    """The keys of the store, looked up at most every few seconds: so long a revoked one may still get in."""

    def __init__(self, store: Store, keep: float) -> None:
        self._store = store
        self._keep = keep
        self._keys: dict[str, KeyRow] = {}
        self._until = float("-inf")

    async def any(self) -> bool:
        await self._refresh()
        return bool(self._keys)

    async def holder(self, token: str) -> Caller | None:
        """Who has this key; None when nobody does."""
        await self._refresh()
        found = _KEY.fullmatch(token)
        row = self._keys.get(found[1]) if found else None
        digest = _digest(found[2]) if found else ""
        if row is None or not hmac.compare_digest(row.digest, digest) or row.role not in ROLES:
            return None
        return Caller(row.role, row.id, row.name)

    async def lets_in(self, caller: Caller) -> bool:
        """Whether who got in would still."""
        if not caller.id:
            return True
        await self._refresh()
        return caller.id in self._keys

    async def _refresh(self) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if now >= self._until:
            self._keys = {row.id: row for row in await self._store.list_keys()}
            self._until = now + self._keep


def _digest(secret: str) -> str:
    # A secret of 256 random bits needs no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode()).hexdigest()
