"""The verbs of the memory store about what is kept beside flows: steps, access keys, the audit log."""

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from redrive.stores.audit import MOST_AUDIT_ENTRIES, AuditEntry, AuditQuery
from redrive.stores.memory.data import MemoryData
from redrive.stores.refusals import key_exists
from redrive.stores.registry_rows import KeyRow, StepRow


class MemoryRegistry:
    _data: MemoryData

    async def put_step(self, step: StepRow) -> bool:
        new = step.name not in self._data.steps
        self._data.steps[step.name] = step
        return new

    async def drop_step(self, name: str) -> bool:
        return self._data.steps.pop(name, None) is not None

    async def list_steps(self) -> list[StepRow]:
        return [step for _, step in sorted(self._data.steps.items())]

    async def add_key(self, key: KeyRow) -> None:
        if key.id in self._data.access_keys:
            raise key_exists(key.id)
        self._data.access_keys[key.id] = key

    async def drop_key(self, id: str) -> bool:  # noqa: A002 - named as the field is
        return self._data.access_keys.pop(id, None) is not None

    async def list_keys(self) -> list[KeyRow]:
        return sorted(self._data.access_keys.values(), key=lambda key: (key.created_at, key.id))

    async def expire_key(self, id: str, at: float) -> bool:  # noqa: A002 - named as the field is
        key = self._data.access_keys.get(id)
        if key is None:
            return False
        expires_at = at if key.expires_at is None else min(key.expires_at, at)
        self._data.access_keys[id] = msgspec.structs.replace(key, expires_at=expires_at)
        return True

    async def mark_keys_used(self, used: Mapping[str, float]) -> None:
        for key_id, at in used.items():
            if (key := self._data.access_keys.get(key_id)) is not None:
                self._data.access_keys[key_id] = msgspec.structs.replace(key, used_at=max(key.used_at or at, at))

    async def add_audit_entries(self, entries: Sequence[AuditEntry], keep: int = MOST_AUDIT_ENTRIES) -> None:
        for entry in entries:
            self._data.add_audit_entry(entry, keep)

    async def list_audit_entries(self, query: AuditQuery) -> list[AuditEntry]:
        wanted = (
            entry
            for entry in reversed(self._data.audit.values())
            if query.action in (None, entry.action)
            and query.concerns(entry.target)
            and (query.before is None or entry.id < query.before)
        )
        return list(itertools.islice(wanted, query.limit))
