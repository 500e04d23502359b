"""What is registered beside flows: the catalogue of steps, and the keys that let people in."""

import sqlite3

from msgspec.structs import astuple

from redrive.errors import StoreError
from redrive.stores.records import KeyRow, StepRow

_IS_STEP = "SELECT 1 FROM step_catalogue WHERE name = ?"
_PUT_STEP = "INSERT OR REPLACE INTO step_catalogue (name, body, updated_at) VALUES (?, ?, ?)"
_DROP_STEP = "DELETE FROM step_catalogue WHERE name = ?"
_STEPS = "SELECT name, body, updated_at FROM step_catalogue ORDER BY name"
_ADD_KEY = "INSERT INTO access_keys (id, name, role, digest, created_at) VALUES (?, ?, ?, ?, ?)"
_DROP_KEY = "DELETE FROM access_keys WHERE id = ?"
_KEYS = "SELECT id, name, role, digest, created_at FROM access_keys ORDER BY created_at, id"


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
    try:
        connection.execute(_ADD_KEY, astuple(key))
    except sqlite3.IntegrityError:
        raise StoreError(f"there is a key {key.id} already; nothing was added") from None


def drop_key(connection: sqlite3.Connection, key_id: str) -> bool:
    return connection.execute(_DROP_KEY, (key_id,)).rowcount == 1


def list_keys(connection: sqlite3.Connection) -> list[KeyRow]:
    return [
        KeyRow(id=key_id, name=name, role=role, digest=digest, created_at=created_at)
        for key_id, name, role, digest, created_at in connection.execute(_KEYS)
    ]
