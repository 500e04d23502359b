"""The catalogue of steps, the access keys of the HTTP API, and the audit log."""

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import astuple

from redrive.stores.audit import LONGEST_AUDIT, AuditEntry, AuditQuery
from redrive.stores.refusals import key_exists
from redrive.stores.registry_rows import KeyRow, StepRow
from redrive.stores.sqlite.rows import json_list

_IS_STEP = "SELECT 1 FROM step_catalogue WHERE name = ?"
_PUT_STEP = "INSERT OR REPLACE INTO step_catalogue (name, body, updated_at) VALUES (?, ?, ?)"
_DROP_STEP = "DELETE FROM step_catalogue WHERE name = ?"
_STEPS = "SELECT name, body, updated_at FROM step_catalogue ORDER BY name"
_ADD_KEY = """
INSERT INTO access_keys (id, name, role, digest, created_at, queues, definitions, expires_at, used_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DROP_KEY = "DELETE FROM access_keys WHERE id = ?"
_KEYS = """
SELECT id, name, role, digest, created_at, queues, definitions, expires_at, used_at
FROM access_keys ORDER BY created_at, id
"""
_EXPIRE_KEY = "UPDATE access_keys SET expires_at = min(coalesce(expires_at, ?1), ?1) WHERE id = ?2"
_USE_KEY = "UPDATE access_keys SET used_at = max(coalesce(used_at, ?1), ?1) WHERE id = ?2"
_ADD_ENTRY = "INSERT INTO audit_log (at, actor, origin, action, target, detail) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_ENTRIES = "DELETE FROM audit_log WHERE id <= ? OR at < ?"
_ENTRIES = """
SELECT id, at, actor, origin, action, target, detail FROM audit_log
WHERE (?1 IS NULL OR action = ?1) AND (?3 IS NULL OR id < ?3)
AND (?2 IS NULL OR target = ?2 OR substr(target, 1, length(?2) + 1) = ?2 || '/')
ORDER BY id DESC LIMIT ?4
"""


def put_step(connection: sqlite3.Connection, step: StepRow) -> bool:
    new = connection.execute(_IS_STEP, (step.name,)).fetchone() is None
    connection.execute(_PUT_STEP, astuple(step))
    return new


def drop_step(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute(_DROP_STEP, (name,)).rowcount == 1


def list_steps(connection: sqlite3.Connection) -> list[StepRow]:
    return [
        StepRow(name=name, body=body, updated_at=updated_at) for name, body, updated_at in connection.execute(_STEPS)
    ]


def add_key(connection: sqlite3.Connection, key: KeyRow) -> None:
    values = (key.id, key.name, key.role, key.digest, key.created_at)
    limits = (json_list(key.queues), json_list(key.definitions), key.expires_at, key.used_at)
    try:
        connection.execute(_ADD_KEY, (*values, *limits))
    except sqlite3.IntegrityError:
        raise key_exists(key.id) from None


def drop_key(connection: sqlite3.Connection, key_id: str) -> bool:
    return connection.execute(_DROP_KEY, (key_id,)).rowcount == 1


def list_keys(connection: sqlite3.Connection) -> list[KeyRow]:
    return [
        KeyRow(
            id=key_id,
            name=name,
            role=role,
            digest=digest,
            created_at=created_at,
            queues=tuple(msgspec.json.decode(queues)),
            definitions=tuple(msgspec.json.decode(definitions)),
            expires_at=expires_at,
            used_at=used_at,
        )
        for key_id, name, role, digest, created_at, queues, definitions, expires_at, used_at in connection.execute(
            _KEYS
        )
    ]


def expire_key(connection: sqlite3.Connection, key_id: str, at: float) -> bool:
    return connection.execute(_EXPIRE_KEY, (at, key_id)).rowcount == 1


def mark_keys_used(connection: sqlite3.Connection, used: Mapping[str, float]) -> None:
    connection.executemany(_USE_KEY, [(at, key_id) for key_id, at in used.items()])


def add_audit_entries(connection: sqlite3.Connection, entries: Sequence[AuditEntry], keep: int) -> None:
    for entry in entries:
        values = (entry.at, entry.actor, entry.origin, entry.action, entry.target, entry.detail)
        number = connection.execute(_ADD_ENTRY, values).lastrowid or 0
        connection.execute(_DROP_ENTRIES, (number - keep, entry.at - LONGEST_AUDIT))


def list_audit_entries(connection: sqlite3.Connection, query: AuditQuery) -> list[AuditEntry]:
    rows = connection.execute(_ENTRIES, (query.action, query.target, query.before, query.limit))
    return [AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True))) for row in rows]
