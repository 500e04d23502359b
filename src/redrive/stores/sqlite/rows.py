"""Converts rows of tables into records, and names their columns."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import astuple

from redrive.stores.records import DeadLetter, FlowRecord, NewFlow, RetryRow

FLOW_FIELDS = FlowRecord.__struct_fields__
NEW_FLOW_FIELDS = NewFlow.__struct_fields__
ADDED_FIELDS = (*NEW_FLOW_FIELDS, "status", "wake_at")
RETRY_FIELDS = RetryRow.__struct_fields__
DEAD_FIELDS = DeadLetter.__struct_fields__


def columns(fields: Iterable[str]) -> str:
    """Return the quoted column names; one of them is `by`, a keyword."""
    return ", ".join(f'"{field}"' for field in fields)


def placeholders(fields: Iterable[str]) -> str:
    return ", ".join("?" for _ in fields)


def added_values(flow: NewFlow) -> tuple[Any, ...]:
    """Return the values of ADDED_FIELDS."""
    return (*astuple(flow), flow.initial_status, flow.start_at)


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
    """Return any number of values as one parameter, for `IN (SELECT value FROM json_each(?))`."""
    return msgspec.json.encode(list(values)).decode()
