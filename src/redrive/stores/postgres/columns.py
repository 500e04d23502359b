"""Converts records to rows and back: times are timestamptz in the tables and epoch seconds in the records."""

from collections.abc import Sequence
from typing import Any

from redrive.stores.audit import AuditEntry
from redrive.stores.queues import QueuePause, QueueRecord
from redrive.stores.records import DeadLetter, EventRow, FlowRecord, HeartbeatRow, Message, NewFlow, RetryRow
from redrive.stores.registry_rows import KeyRow, StepRow

FLOW = FlowRecord.__struct_fields__
NEW_FLOW = NewFlow.__struct_fields__
EVENT = EventRow._fields
RETRY = RetryRow.__struct_fields__
HEARTBEAT = HeartbeatRow._fields
DEAD_LETTER = DeadLetter.__struct_fields__
MESSAGE = Message.__struct_fields__
STEP = StepRow.__struct_fields__
KEY = KeyRow.__struct_fields__
AUDIT_ENTRY = AuditEntry.__struct_fields__

_BODIES = {"input", "body", "details"}
_TYPES = {
    "seq": "integer",
    "item": "integer",
    "depth": "integer",
    "run_from": "integer",
    "place": "integer",
    "reopens": "boolean",
    "priority": "bigint",
    "attempt_number": "bigint",
    "max_retries": "bigint",
    "timeout_seconds": "double precision",
    "timeout_retry_limit": "bigint",
    "backoff_base_delay_ms": "double precision",
    "attempts": "bigint",
    "messages_read": "bigint",
    "lost_owners": "bigint",
    "retryable": "boolean",
    "dependencies_satisfied": "boolean",
}


def selected(columns: Sequence[str], table: str) -> str:
    """Return the columns for a SELECT, converted to the record's types."""
    return ", ".join(_read(column, table) for column in columns)


def rows_of_json(parameter: str, columns: Sequence[str], alias: str) -> str:
    """Return a FROM item with the rows of a parameter that is a JSON array of objects; see `written`."""
    typed = ", ".join(f'"{column}" {_sent(column)}' for column in columns)
    return f"json_to_recordset({parameter}::text::json) AS {alias} ({typed})"


def written(columns: Sequence[str], alias: str) -> str:
    """Return the columns of `rows_of_json`, converted to the table's types."""
    return ", ".join(_write(column, alias) for column in columns)


def named(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def flow_record(row: Sequence[Any]) -> FlowRecord:
    """Return the record of a row of `selected(FLOW)`."""
    return FlowRecord(*row)


def key_row(row: Any) -> KeyRow:
    """Return the record of a row of `selected(KEY)`."""
    return KeyRow(**{**row, "queues": tuple(row["queues"]), "definitions": tuple(row["definitions"])})


def queue_record(row: Any) -> QueueRecord:
    """Return the record of a row that has the columns of a pause, which are NULL without one."""
    fields = dict(row)
    at, by, why = (fields.pop(name) for name in ("at", "by", "why"))
    return QueueRecord(**fields, pause=None if at is None else QueuePause(at=at, by=by, why=why))


def _is_time(column: str) -> bool:
    return column in ("at", "since") or column.endswith("_at")


def _read(column: str, table: str) -> str:
    if column == "wake_at":
        # A flow that only a message wakes.
        return f"""date_part('epoch', nullif({table}.wake_at, 'infinity')) AS wake_at"""
    if _is_time(column):
        # Not extract(), which computes in numeric and takes several times as long.
        return f"""date_part('epoch', {table}."{column}") AS "{column}\""""
    if column in _BODIES:
        # As text, since some drivers decode json.
        return f'{table}."{column}"::text AS "{column}"'
    return f'{table}."{column}"'


def _sent(column: str) -> str:
    return "float8" if _is_time(column) else _TYPES.get(column, "text")


def _write(column: str, alias: str) -> str:
    if _is_time(column):
        return f'to_timestamp({alias}."{column}")'
    return f'{alias}."{column}"' + ("::json" if column in _BODIES else "")
