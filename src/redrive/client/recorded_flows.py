"""Flows with their logs as JSON lines: export them from a store, and read them back to replay them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.events import AnyEvent, AttemptStarted, ItemStarted, Line
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, FlowQuery, FlowRecord, FlowStatus
from redrive.worker.event_rows import lines_of

OPEN: tuple[FlowStatus, ...] = ("ready", "waiting", "running", "paused", "parked")
FLOWS_PER_PAGE = 200
LONGEST_LINE = 512 * 2**20
"""Bytes of one flow, with its log."""


class RecordedFlow(msgspec.Struct, frozen=True):
    """A flow as it was stored, with its log. Delivery tokens of attempts are left out."""

    flow: FlowRecord
    log: list[Line]


_DECODER = msgspec.json.Decoder(RecordedFlow)


def write_recorded(recorded: RecordedFlow) -> bytes:
    """The flow as one line of JSON."""
    log = [line._replace(event=_without_token(line.event)) for line in recorded.log]
    return msgspec.json.encode(RecordedFlow(recorded.flow, log)) + b"\n"


def _without_token(event: AnyEvent) -> AnyEvent:
    if isinstance(event, ItemStarted | AttemptStarted):
        return msgspec.structs.replace(event, delivery="")
    return event


def read_recorded(path: str | Path) -> Iterator[RecordedFlow]:
    """Read the flows of an exported file one by one.

    OSError when there is no such file, DeserializationError for a line that is not a recorded flow.
    """
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise DeserializationError(f"{path}:{number}: a line must not be longer than {LONGEST_LINE} bytes")
            if line.strip():
                yield _read(line, f"{path}:{number}")


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
