"""Archives of finished flows: files of compressed JSON lines, with the record, the log and the dead letter of each."""

import gzip
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from redrive.client.recorded_flows import (
    RecordedFlow,
    Unseal,
    export_flow,
    read_lines,
    read_recorded,
    unsealed,
    write_recorded,
)
from redrive.determinism.off_loop import off_loop
from redrive.errors import AmbiguousFlowError, DeserializationError, DurationError, FlowNotFoundError
from redrive.explain.explain_flow import explain_flow
from redrive.explain.explanation import Explanation
from redrive.failures.duration import read_duration
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, DeadQuery, FlowQuery, FlowRecord
from redrive.worker.maintenance.pruner import prune_until_done

FLOWS_PER_PAGE = 100
LEAST_AGE = 60.0
"""Seconds since which a flow must have ended to be pruned: by then, its last commit is there to be archived."""
SUFFIX = ".jsonl.gz"
MOST_SIMILAR = 5
"""How many flows a message names when several could be meant."""


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive has now."""

    file: str
    flows: int
    """How many flows were written to it now."""
    kept: int
    """How many other flows it had before, and has still."""
    pruned: int = 0
    """How many flows were removed from the store."""


async def archive_flows(
    store: Store, target: str | Path, before: float, definition: str | None = None, then_prune: bool = False
) -> Archived:
    """Add the flows that finished before this time to an archive, and then remove them from the store.

    target: the file; or a folder, in which the file is named for the day: `until-2026-11-19.jsonl.gz`.
    """
    file = _file_in(Path(target), before)
    part = file.with_name(f"{file.name}.part")
    seal: Any = getattr(store, "seal", None)
    unseal: Unseal | None = getattr(store, "unseal", None)
    written: set[str] = set()
    try:
        raw = part.open("xb")
    except FileExistsError:
        raise FileExistsError(f"{part} exists: another archive is being written; if none is, delete it") from None
    try:
        with raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
                async for page in _finished(store, before, definition):
                    for record in page:
                        recorded = await export_flow(store, record)
                        letters = await store.list_dead_letters(DeadQuery(flow_ids=(record.id,), state=None))
                        if letters:
                            recorded = msgspec.structs.replace(recorded, dead=letters[0])
                        await off_loop(True, _write, packed, recorded, seal)
                        written.add(record.id)
                kept = await off_loop(True, _copy, file, packed, written, unseal)
            raw.flush()
            os.fsync(raw.fileno())
        if written:
            os.replace(part, file)
            _sync_folder(file.parent)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    pruned = await prune_until_done(store, before) if then_prune else 0
    return Archived(file=str(file), flows=len(written), kept=kept, pruned=pruned)


def _file_in(target: Path, before: float) -> Path:
    if target.is_dir():
        return target / f"until-{datetime.fromtimestamp(before, UTC):%Y-%m-%d}{SUFFIX}"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: there is no such folder")
    return target


async def _finished(store: Store, before: float, definition: str | None) -> AsyncIterator[list[FlowRecord]]:
    last = None
    while True:
        query = FlowQuery(
            status=FINISHED, definition=definition, created_before=before, before=last, limit=FLOWS_PER_PAGE
        )
        page = await store.list_flows(query)
        yield [one for one in page if one.finished_at is not None and one.finished_at < before]
        if len(page) < FLOWS_PER_PAGE:
            return
        last = page[-1].id


def _write(packed: gzip.GzipFile, recorded: RecordedFlow, seal: Any) -> None:
    line = write_recorded(recorded)
    packed.write(line if seal is None else f"{seal(line.decode())}\n".encode())


class _Id(msgspec.Struct):
    id: str


class _Known(msgspec.Struct):
    flow: _Id


_KNOWN = msgspec.json.Decoder(_Known)


def _copy(file: Path, packed: gzip.GzipFile, written: set[str], unseal: Unseal | None) -> int:
    """Copy the flows of the archive as it was, except those that were written now."""
    kept = 0
    with suppress(FileNotFoundError):
        for number, line in read_lines(file):
            where = f"{file}:{number}"
            try:
                known = _KNOWN.decode(unsealed(line, unseal, where)).flow.id
            except msgspec.MsgspecError as error:
                raise DeserializationError(f"{where}: this is no line of an archive: {error}") from None
            if known not in written:
                packed.write(line)
                kept += 1
    return kept


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


# Reading


def archive_files(path: str | Path) -> list[Path]:
    """The files of an archive: itself, or those in the folder, oldest first."""
    given = Path(path)
    return sorted(given.glob(f"*{SUFFIX}")) if given.is_dir() else [given]


def read_archive(path: str | Path, unseal: Unseal | None = None) -> Iterator[RecordedFlow]:
    for file in archive_files(path):
        yield from read_recorded(file, unseal)


def explain_archived(path: str | Path, flow: str, now: float, unseal: Unseal | None = None) -> Explanation:
    """Explain an archived flow, named by its id, the first characters of its id, or its key."""
    exact: RecordedFlow | None = None
    similar: dict[str, RecordedFlow] = {}
    for recorded in read_archive(path, unseal):
        record = recorded.flow
        if flow in (record.id, record.key):
            exact = recorded  # of several archives that have it, the last one
        elif record.id.startswith(flow) and len(similar) < MOST_SIMILAR:
            similar[record.id] = recorded
    if exact is None and len(similar) > 1:
        ids = ", ".join(sorted(similar))
        raise AmbiguousFlowError(
            flow, f"{flow} matches the ids of several flows in {path}: {ids}; give more characters"
        )
    found = exact or next(iter(similar.values()), None)
    if found is None:
        raise FlowNotFoundError(flow, str(path), "name it by its id or its key")
    return explain_flow(found.flow, found.log, found.dead, (), (), now)


def age_to_archive(before: object, definition: str | None, then_prune: bool) -> float:
    """Return the age in seconds; ValueError for a wrong one, and for what must not be pruned."""
    try:
        age = read_duration(before)
    except DurationError as error:
        raise ValueError(f"before: {error}") from None
    if then_prune and definition is not None:
        raise ValueError("then_prune removes all finished flows of that age, so no definition can be given with it")
    if then_prune and age < LEAST_AGE:
        raise ValueError(f"before: with then_prune, flows must have ended at least {LEAST_AGE:g} seconds ago")
    return age
