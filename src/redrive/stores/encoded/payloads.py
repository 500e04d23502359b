"""Encodes and decodes the payloads of records. Whatever cannot be decoded is left as it is."""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from redrive.stores.batches import BatchRow
from redrive.stores.encoded_text import KEY_ID, data_of, key_of, write_encoded
from redrive.stores.records import (
    Batch,
    DeadLetter,
    EventRow,
    FlowRecord,
    HeartbeatRow,
    Message,
    NewFlow,
    RetryRow,
)
from redrive.stores.runs import EndedRun
from redrive.stores.schedules import ScheduleRow

if TYPE_CHECKING:
    from redrive.codecs import Codec

log = logging.getLogger("redrive")

MOST_WARNINGS = 100

replace = msgspec.structs.replace


class Payloads:
    def __init__(self, codec: "Codec", address: str) -> None:
        self._codec = codec
        self._address = address
        self._warned: set[tuple[str, str]] = set()
        self._key = next(iter(codec.keys), "")
        if not all(map(KEY_ID.fullmatch, codec.keys)) or not self._key:
            raise ValueError("codec: its `keys` must be ids of 1 to 64 letters, digits and _ . -, at least one")

    # Texts

    def encode(self, text: str, *place: object) -> str:
        """place: where the text belongs. It can be decoded only there."""
        return write_encoded(self._key, self._codec.encode(text.encode("utf-8", "surrogatepass"), _context(place)))

    def decode(self, text: str, *place: object) -> str:
        """Return the text; as it is, where it is in clear or cannot be decoded."""
        key = key_of(text)
        if key is None:
            return text
        if key not in self._codec.keys:
            return text
        try:
            return self._codec.decode(data_of(text, key), _context(place), key).decode("utf-8", "surrogatepass")
        except ValueError as error:
            self._warn(key, f"{place[0]} of {' '.join(map(str, place[1:]))}", error)
            return text

    def _warn(self, key: str, what: str, error: ValueError) -> None:
        if (key, what) not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add((key, what))
            log.error("%s: the %s cannot be decoded with key %s: %s", self._address, what, key, error)

    # What is written

    def new_flow(self, flow: NewFlow) -> NewFlow:
        return replace(flow, input=self.input(flow.id, flow.input))

    def input(self, flow_id: str, text: str) -> str:
        return self.encode(text, "input", flow_id)

    def batch(self, batch: Batch) -> Batch:
        encode = self.encode
        return replace(
            batch,
            new_flows=[self.new_flow(flow) for flow in batch.new_flows],
            events=[
                EventRow(flow_id, seq, at, encode(body, "log", flow_id, seq)) for flow_id, seq, at, body in batch.events
            ],
            flows=[
                change if change.input is None else replace(change, input=self.input(change.flow_id, change.input))
                for change in batch.flows
            ],
            retries=[replace(row, reason=encode(row.reason, "reason")) if row.reason else row for row in batch.retries],
            dead=[
                replace(
                    letter,
                    message=encode(letter.message, "error", letter.flow_id),
                    payload=encode(letter.payload, "summary", letter.flow_id),
                )
                for letter in batch.dead
            ],
            heartbeats=[
                HeartbeatRow(flow_id, item, at, encode(details, "heartbeat", flow_id, item))
                for flow_id, item, at, details in batch.heartbeats
            ],
            children=[
                (self.new_flow(child), self.message(child.parent or "", refusal)) for child, refusal in batch.children
            ],
            sends=[sent._replace(body=self.message(sent.flow_id, sent.body)) for sent in batch.sends],
        )

    def message(self, flow_id: str, body: str) -> str:
        return self.encode(body, "message", flow_id)

    def schedule(self, row: ScheduleRow) -> ScheduleRow:
        return replace(row, body=self.encode(row.body, "schedule", row.name))

    def batch_row(self, row: BatchRow) -> BatchRow:
        return row if row.on_done is None else replace(row, on_done=self.encode(row.on_done, "batch", row.name))

    def digest(self, name: str, digest: str) -> str:
        """The digest of what is encoded would tell whoever guesses it."""
        return self.encode(digest, "digest", name)

    # What is read

    def read_flow(self, record: FlowRecord) -> FlowRecord:
        return replace(record, input=self.decode(record.input, "input", record.id))

    def read_run(self, flow_id: str, run: EndedRun) -> EndedRun:
        return replace(run, input=self.decode(run.input, "input", flow_id))

    def read_flows(self, records: Iterable[FlowRecord]) -> list[FlowRecord]:
        return [self.read_flow(record) for record in records]

    def read_events(self, rows: Iterable[EventRow]) -> list[EventRow]:
        return [EventRow(flow_id, seq, at, self.decode(body, "log", flow_id, seq)) for flow_id, seq, at, body in rows]

    def read_heartbeats(self, rows: Iterable[HeartbeatRow]) -> list[HeartbeatRow]:
        return [
            HeartbeatRow(flow_id, item, at, self.decode(details, "heartbeat", flow_id, item))
            for flow_id, item, at, details in rows
        ]

    def read_messages(self, messages: Iterable[Message]) -> list[Message]:
        return [replace(one, body=self.decode(one.body, "message", one.flow_id)) for one in messages]

    def read_reason(self, reason: str) -> str:
        return self.decode(reason, "reason")

    def read_retries(self, rows: Iterable[RetryRow]) -> list[RetryRow]:
        return [replace(row, reason=self.read_reason(row.reason)) if row.reason else row for row in rows]

    def read_error(self, flow_id: str, message: str) -> str:
        return self.decode(message, "error", flow_id)

    def read_letters(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        return [
            replace(
                letter,
                message=self.read_error(letter.flow_id, letter.message),
                payload=self.decode(letter.payload, "summary", letter.flow_id),
            )
            for letter in letters
        ]

    def read_batch(self, row: BatchRow) -> BatchRow:
        on_done = None if row.on_done is None else self.decode(row.on_done, "batch", row.name)
        digest = None if row.digest is None else self.decode(row.digest, "digest", row.name)
        return replace(row, on_done=on_done, digest=digest)

    def read_schedules(self, rows: Iterable[ScheduleRow]) -> list[ScheduleRow]:
        return [replace(row, body=self.decode(row.body, "schedule", row.name)) for row in rows]


def _context(place: Sequence[object]) -> bytes:
    return "\x00".join(map(str, place)).encode("utf-8", "surrogatepass")
