"""Rows of tables as records, and records as rows."""

from collections.abc import Iterable
from typing import Any

import msgspec

from redrive.stores.records import DeadLetter, FlowRecord, RetryRow

FLOW_FIELDS = FlowRecord.__struct_fields__
RETRY_FIELDS = RetryRow.__struct_fields__
DEAD_FIELDS = DeadLetter.__struct_fields__


def columns(fields: Iterable[str]) -> str:
    """Quoted: one is called "by"."""
    return ", ".join(f'"{field}"' for field in fields)


def places(fields: Iterable[str]) -> str:
    return ", ".join("?" for _ in fields)


def flow_record(row: tuple[Any, ...]) -> FlowRecord:
    return FlowRecord(*row)


def retry_row(row: tuple[Any, ...]) -> RetryRow:
    fields: dict[str, Any] = dict(zip(RETRY_FIELDS, row, strict=True))
    for name in ("retryable", "dependencies_satisfied"):
        fields[name] = bool(fields[name])
    return RetryRow(**fields)


def dead_letter(row: tuple[Any, ...]) -> DeadLetter:
    return DeadLetter(**dict(zip(DEAD_FIELDS, row, strict=True)))


def json_list(values: Iterable[Any]) -> str:
    """For `IN (SELECT value FROM json_each(?))`: any number of values in one parameter."""
    return msgspec.json.encode(list(values)).decode()
