"""The statements that add flows in a caller's own transaction: flows exist if and only if that commits."""

import os
from collections.abc import Sequence

from redrive.stores.caller_transaction import PARAMETER, AddSteps, wrong_database
from redrive.stores.records import FlowRecord, NewFlow
from redrive.stores.sqlite.rows import ADDED_FIELDS, FLOW_FIELDS, added_values, columns, flow_record

_FILES = "PRAGMA database_list"
# Without RETURNING, which older versions of SQLite do not know.
_ADD = f"""
INSERT INTO main.flows ({columns(ADDED_FIELDS)}) VALUES ({", ".join(PARAMETER for _ in ADDED_FIELDS)})
ON CONFLICT (key, definition) WHERE key IS NOT NULL DO NOTHING
"""  # noqa: S608 - our own names
_FIND_BY_KEY = f"""
SELECT {columns(FLOW_FIELDS)} FROM main.flows WHERE key = {PARAMETER} AND definition = {PARAMETER}
"""  # noqa: S608 - our own names


def add_flows_steps_on(flows: Sequence[NewFlow], path: str, address: str) -> AddSteps:
    """Add flows on the caller's connection; WrongDatabaseError when that has another file open."""
    _refuse_another_file((yield _FILES, ()), path, address)
    answers: list[FlowRecord | None] = []
    for flow in flows:
        yield _ADD, added_values(flow)
        holder = None
        if flow.key is not None:
            (row,) = yield _FIND_BY_KEY, (flow.key, flow.definition)
            holder = flow_record(tuple(row))
        answers.append(None if holder is None or holder.id == flow.id else holder)
    return answers


def _refuse_another_file(databases: Sequence[Sequence[object]], path: str, address: str) -> None:
    opened = next((str(file or "") for _, name, file in databases if name == "main"), "")
    try:
        is_same = bool(opened) and os.path.samefile(opened, path)
    except OSError:
        is_same = False
    if not is_same:
        raise wrong_database(opened or "a database in memory", address)
