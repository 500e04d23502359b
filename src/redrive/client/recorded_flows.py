"""Flows with their logs as JSON lines: export them from a store, and read them back to replay them."""

import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.events import AnyEvent, AttemptStarted, ItemStarted, Line
from redrive.stores.encoded_text import how_to_decode, key_of
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, DeadLetter, FlowQuery, FlowRecord, FlowStatus
from redrive.worker.event_rows import lines_of

OPEN: tuple[FlowStatus, ...] = ("ready", "waiting", "running", "paused", "parked")
FLOWS_PER_PAGE = 200
LONGEST_LINE = 512 * 2**20
"""Bytes of one flow, with its log."""


_GZIP = b"\x1f\x8b"

Unseal = Callable[[str], str]
"""Decodes a line that a codec has encoded; returns it as it is where it cannot."""


class RecordedFlow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A flow as it was stored, with its log. Delivery tokens of attempts are left out."""

    flow: FlowRecord
    log: list[Line]
    dead: DeadLetter | None = None
    """In an archive: how it failed, and who redrove or discarded it."""


_DECODER = msgspec.json.Decoder(RecordedFlow)


def write_recorded(recorded: RecordedFlow) -> bytes:
    """The flow as one line of JSON."""
    log = [line._replace(event=_without_token(line.event)) for line in recorded.log]
    return msgspec.json.encode(msgspec.structs.replace(recorded, log=log)) + b"\n"


def _without_token(event: AnyEvent) -> AnyEvent:
    if isinstance(event, ItemStarted | AttemptStarted):
        return msgspec.structs.replace(event, delivery="")
    return event


def read_recorded(path: str | Path, unseal: Unseal | None = None) -> Iterator[RecordedFlow]:
    """Read the flows of an exported file, or of an archive, one by one.

    OSError when there is no such file, DeserializationError for a line that is not a recorded flow.
    """
    for number, line in read_lines(path):
        yield _read(unsealed(line, unseal, f"{path}:{number}"), f"{path}:{number}")


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a file, compressed or not, with their numbers; those that are empty are left out."""
    with Path(path).open("rb") as plain:
        is_compressed = plain.read(2) == _GZIP
        plain.seek(0)
        file: IO[bytes] = gzip.GzipFile(fileobj=plain) if is_compressed else plain  # type: ignore[assignment]  # reads alike
        number = 0
        try:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DeserializationError(f"{path}:{number}: a line must not be longer than {LONGEST_LINE} bytes")
                if line.strip():
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DeserializationError(f"{path}:{number + 1}: the file is damaged: {error}") from None


def unsealed(line: bytes, unseal: Unseal | None, where: str) -> bytes:
    """Return a line as it was before a codec encoded it; DeserializationError without the key."""
    text = line.decode(errors="replace").strip()
    if (key := key_of(text)) is None:
        return line
    text = text if unseal is None else unseal(text)
    if key_of(text) is not None:
        raise DeserializationError(f"{where}: its payloads are {how_to_decode(key)}")
    return text.encode()


def _read(line: bytes, where: str) -> RecordedFlow:
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DeserializationError(
            f"{where}: this is not a flow that this version can read ({error}); write the file with `redrive export`"
        ) from None


async def export_flow(store: Store, record: FlowRecord) -> RecordedFlow:
    rows = (await store.read_events([record.id]))[record.id]
    return RecordedFlow(record, lines_of(rows))


async def recent_flows(store: Store, count: int, definition: str | None = None) -> AsyncIterator[FlowRecord]:
    """Up to `count` flows, the newest first; those that have ended come after those that are open."""
    seen: set[str] = set()
    for status in (OPEN, FINISHED):
        before = None
        while len(seen) < count:
            limit = min(FLOWS_PER_PAGE, count - len(seen))
            page = await store.list_flows(FlowQuery(status=status, definition=definition, before=before, limit=limit))
            for record in page:
                # One that was open a page ago may have ended since.
                if record.id not in seen:
                    seen.add(record.id)
                    yield record
            if len(page) < limit:
                break
            before = page[-1].id
