"""A store whose payloads are encoded: it encodes before another store gets them, and decodes what that returns."""

from collections.abc import Collection, Generator, Sequence
from typing import TYPE_CHECKING, Any

from redrive.determinism.off_loop import off_loop
from redrive.errors import StoreError, StoreUnavailableError, StoreUnusableError
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.batches import BatchQuery, BatchRow
from redrive.stores.caller_transaction import AddSteps, Parameters, Rows
from redrive.stores.claimed import Claimed
from redrive.stores.counts import DeadGroup, RetryGroup
from redrive.stores.encoded.payloads import Payloads, replace
from redrive.stores.leases import Lease
from redrive.stores.records import (
    Batch,
    DeadLetter,
    DeadQuery,
    EventRow,
    FlowQuery,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    Message,
    NewFlow,
    RetryQuery,
    RetryRow,
)
from redrive.stores.runs import EndedRun
from redrive.stores.schedules import MOST_DUE, DueSchedules, ScheduleRow

if TYPE_CHECKING:
    from redrive.codecs import Codec
    from redrive.stores.interface import Store

WITHOUT_PAYLOADS = frozenset(
    {
        *("address", "database", "close", "on_wake", "on_ended"),
        *("acquire_lease", "extend_lease", "lease_renewer", "release_lease", "reap_leases", "list_workers"),
        "accuse",  # the blame names lines of code
        *("committed", "prune", "count_unread", "count_retries", "count_flows", "count_children"),
        "close_dead_letters",  # the message says who and why, which the letters say in clear as well
        *("set_queue_limit", "configure_queue", "set_queue_pause", "list_queues"),
        *("report", "list_reports", "read_activity", "set_dependency_order", "list_dependency_orders"),
        *("put_step", "drop_step", "list_steps", "add_key", "drop_key", "list_keys", "expire_key", "mark_keys_used"),
        *("add_audit_entries", "list_audit_entries", "drop_schedule"),
        *(
            "count_batches",
            "end_batch",
            "prune_batches",
            "queue_use",
            "release_key",
            "prune_runs",
            "list_long_runs",
        ),
    }
)
"""The verbs that pass on what they are given."""


class EncodedStore:
    """Implements Store. A verb that is not known here is refused, so that no new one writes payloads in clear."""

    def __init__(self, store: "Store", codec: "Codec") -> None:
        self._store = store
        self._payloads = Payloads(codec, store.address)
        if hasattr(store, "steps_to_add"):
            self.steps_to_add = self._steps_to_add

    def __getattr__(self, verb: str) -> Any:
        if verb in WITHOUT_PAYLOADS:
            return getattr(self._store, verb)
        raise AttributeError(f"{type(self).__name__} has no attribute {verb!r}")

    async def open(self) -> None:
        await self._store.open()

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        try:
            return self._payloads_of(await self._store.add_flows(await self._encoded(flows)))
        except StoreError as error:
            if isinstance(error, StoreUnavailableError | StoreUnusableError):
                raise
            # A store takes a flow that it has already for another one, since no two encoded inputs are equal.
            known = await self.find_flows([flow.id for flow in flows])
            added = {
                flow.id: known[flow.id] for flow in flows if flow.id in known and flow.was_added_as(known[flow.id])
            }
            if not added:
                raise
            left = [flow for flow in flows if flow.id not in added]
            answers = iter(await self.add_flows(left) if left else [])
            return [added[flow.id] if flow.id in added else next(answers) for flow in flows]

    async def _steps_to_add(self, flows: Sequence[NewFlow]) -> AddSteps:
        return self._decoding_steps(await self._store.steps_to_add(await self._encoded(flows)))  # type: ignore[attr-defined]  # it has it

    def _decoding_steps(self, steps: AddSteps) -> Generator[tuple[str, Parameters], Rows, list[FlowRecord | None]]:
        return self._payloads_of((yield from steps))

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        claimed = await self._store.claim(lease, definitions, queues, limit, now, skipped)
        return replace(claimed, flows=await self._decoded(claimed.flows)) if claimed.flows else claimed

    async def take_flow(self, lease: Lease, flow_id: str) -> FlowRecord | None:
        return self._payloads_of([await self._store.take_flow(lease, flow_id)])[0]

    async def find_flow(self, flow_id: str) -> FlowRecord | None:
        return self._payloads_of([await self._store.find_flow(flow_id)])[0]

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
        return {one.id: one for one in await self._decoded(list((await self._store.find_flows(flow_ids)).values()))}

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]:
        return await self._decoded(await self._store.list_flows(_in_clear(query)))

    async def count_matching_flows(self, query: FlowQuery) -> int:
        return await self._store.count_matching_flows(_in_clear(query))

    async def replace_input(self, flow_id: str, text: str, start_at: float) -> bool:
        encoded = await off_loop(len(text) > LARGE_JSON, self._payloads.input, flow_id, text)
        return await self._store.replace_input(flow_id, encoded, start_at)

    async def find_run(self, flow_id: str, back: int) -> EndedRun | None:
        run = await self._store.find_run(flow_id, back)
        return None if run is None else self._payloads.read_run(flow_id, run)

    # What workers write and read

    async def commit(self, lease: Lease, batch: Batch) -> None:
        flows = [*batch.new_flows, *(child for child, _ in batch.children)]
        size = sum(len(row.body) for row in batch.events) + sum(len(flow.input) for flow in flows)
        await self._store.commit(lease, await off_loop(size > LARGE_JSON, self._payloads.batch, batch))

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        logs = await self._store.read_events(flow_ids)
        return {flow_id: await self._decoded_rows(rows) for flow_id, rows in logs.items()}

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        return await self._decoded_rows(await self._store.read_events_after(flow_id, seq, limit))

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
        return self._payloads.read_heartbeats(await self._store.read_heartbeats(flow_ids))

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        encoded = await off_loop(len(body) > LARGE_JSON, self._payloads.message, flow_id, body)
        return await self._store.send(flow_id, encoded, now, reopens)

    async def read_inbox(self, lease: Lease) -> list[Message]:
        messages = await self._store.read_inbox(lease)
        is_long = sum(len(one.body) for one in messages) > LARGE_JSON
        return await off_loop(is_long, self._payloads.read_messages, messages)

    # Retries and dead letters

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        return self._payloads.read_retries(await self._store.list_retries(query))

    async def group_retries(self) -> list[RetryGroup]:
        read = self._payloads.read_reason
        return [replace(one, reason=read(one.reason)) for one in await self._store.group_retries()]

    async def list_dead_letters(self, query: DeadQuery) -> list[DeadLetter]:
        return self._payloads.read_letters(await self._store.list_dead_letters(query))

    async def group_dead_letters(self, query: DeadQuery) -> list[DeadGroup]:
        read = self._payloads.read_error
        groups = await self._store.group_dead_letters(query)
        return [replace(one, message=read(one.flow_id, one.message)) for one in groups]

    # Batches

    async def add_batch(self, row: BatchRow) -> BatchRow | None:
        known = await self._store.add_batch(self._payloads.batch_row(row))
        return None if known is None else self._payloads.read_batch(known)

    async def complete_batch(self, name: str, total: int, digest: str) -> None:
        await self._store.complete_batch(name, total, self._payloads.digest(name, digest))

    async def find_batch(self, name: str) -> BatchRow | None:
        row = await self._store.find_batch(name)
        return None if row is None else self._payloads.read_batch(row)

    async def list_batches(self, query: BatchQuery) -> list[BatchRow]:
        return [self._payloads.read_batch(row) for row in await self._store.list_batches(query)]

    async def list_ended_batches(self, limit: int) -> list[BatchRow]:
        return [self._payloads.read_batch(row) for row in await self._store.list_ended_batches(limit)]

    # Schedules

    async def due_schedules(self, now: float, limit: int = MOST_DUE) -> DueSchedules:
        due = await self._store.due_schedules(now, limit)
        return due._replace(rows=self._payloads.read_schedules(due.rows))

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        row = await self._store.find_schedule(name)
        return None if row is None else self._payloads.read_schedules([row])[0]

    async def list_schedules(self, after: str, limit: int) -> list[ScheduleRow]:
        return self._payloads.read_schedules(await self._store.list_schedules(after, limit))

    async def write_schedule(
        self,
        row: ScheduleRow,
        flows: Sequence[NewFlow] = (),
        messages: Sequence[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> list[FlowRecord | None] | None:
        encoded = [(flow_id, self._payloads.message(flow_id, body)) for flow_id, body in messages]
        written = self._payloads.schedule(row)
        answers = await self._store.write_schedule(written, await self._encoded(flows), encoded, now)
        return None if answers is None else self._payloads_of(answers)

    # Lines of archives

    def seal(self, line: str) -> str:
        return self._payloads.encode(line, "archive")

    def unseal(self, line: str) -> str:
        return self._payloads.decode(line, "archive")

    # Records

    async def _encoded(self, flows: Sequence[NewFlow]) -> list[NewFlow]:
        is_long = sum(len(flow.input) for flow in flows) > LARGE_JSON
        return await off_loop(is_long, list, map(self._payloads.new_flow, flows))

    async def _decoded(self, records: Sequence[FlowRecord]) -> list[FlowRecord]:
        is_long = sum(len(record.input) for record in records) > LARGE_JSON
        return await off_loop(is_long, self._payloads.read_flows, records)

    async def _decoded_rows(self, rows: Sequence[EventRow]) -> list[EventRow]:
        is_long = sum(len(row.body) for row in rows) > LARGE_JSON
        return await off_loop(is_long, self._payloads.read_events, rows)

    def _payloads_of(self, records: Sequence[FlowRecord | None]) -> list[FlowRecord | None]:
        return [None if record is None else self._payloads.read_flow(record) for record in records]


def _in_clear(query: FlowQuery) -> FlowQuery:
    """Look for texts only where they are in clear."""
    return replace(query, in_messages=False) if query.text is not None else query
