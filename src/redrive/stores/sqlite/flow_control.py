"""Settings of queues, and starts that share a key."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from redrive.stores.flow_control import QueueUse
from redrive.stores.queues import SETTINGS
from redrive.stores.sqlite.rows import columns, placeholders

# ruff: noqa: S608 - our own names

_SETTINGS = f"SELECT {columns(SETTINGS)} FROM queue_limits WHERE name = ?"
_SET = f"INSERT INTO queue_limits (name, {columns(SETTINGS)}) VALUES (?, {placeholders(SETTINGS)})"
_DROP_SETTINGS = "DELETE FROM queue_limits WHERE name = ?"
_FORGET_RATE = "DELETE FROM queue_rates WHERE name = ? AND key = ''"
_FORGET_KEY_RATES = "DELETE FROM queue_rates WHERE name = ? AND key <> ''"
_USE = """
SELECT
    (
        SELECT count(*) FROM flows
        WHERE owner IS NOT NULL AND concurrency_key IS NOT NULL AND queue = ?1 AND concurrency_key = ?2
    ),
    (SELECT level FROM queue_rates WHERE name = ?1 AND key = ''),
    (SELECT level FROM queue_rates WHERE name = ?1 AND key = ?2)
"""
_RELEASE_KEY = "UPDATE flows SET key = NULL WHERE id = ?"
_REPLACE_INPUT = """
UPDATE flows SET
    input = ?1, start_at = iif(status = 'waiting', ?2, start_at), wake_at = iif(status = 'waiting', ?2, wake_at)
WHERE id = ?3 AND claims = 0 AND finished_at IS NULL
"""


def configure_queue(connection: sqlite3.Connection, queue: str, changes: Mapping[str, Any]) -> None:
    row = connection.execute(_SETTINGS, (queue,)).fetchone() or (None,) * len(SETTINGS)
    before = dict(zip(SETTINGS, row, strict=True))
    after = before | dict(changes)
    connection.execute(_DROP_SETTINGS, (queue,))
    if any(value is not None for value in after.values()):
        connection.execute(_SET, (queue, *after.values()))
    if before["rate"] != after["rate"]:
        connection.execute(_FORGET_RATE, (queue,))
    if before["key_rate"] != after["key_rate"]:
        connection.execute(_FORGET_KEY_RATES, (queue,))


def queue_use(connection: sqlite3.Connection, queue: str, key: str | None) -> QueueUse:
    return QueueUse(*connection.execute(_USE, (queue, key)).fetchone())


def release_key(connection: sqlite3.Connection, flow_id: str) -> None:
    connection.execute(_RELEASE_KEY, (flow_id,))


def replace_input(connection: sqlite3.Connection, flow_id: str, text: str, start_at: float) -> bool:
    return connection.execute(_REPLACE_INPUT, (text, start_at, flow_id)).rowcount == 1
