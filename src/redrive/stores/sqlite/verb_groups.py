"""The verbs of the SQLite store beside flows: observations, schedules, batches, runs, the registry."""

from collections.abc import Mapping, Sequence
from typing import Any

from redrive.stores.activity import ActivityQuery, ActivityRow
from redrive.stores.audit import MOST_AUDIT_ENTRIES, AuditEntry, AuditQuery
from redrive.stores.batches import BatchCounts, BatchQuery, BatchRow
from redrive.stores.counts import DeadGroup, FlowCount, RetryGroup
from redrive.stores.flow_control import QueueUse
from redrive.stores.leases import Lease
from redrive.stores.records import DeadQuery, FlowQuery, FlowRecord, FlowStatus, NewFlow
from redrive.stores.registry_rows import KeyRow, StepRow
from redrive.stores.runs import EndedRun, LongRun
from redrive.stores.schedules import MOST_DUE, DueSchedules, ScheduleRow
from redrive.stores.sqlite import batches, flow_control, observations, registry, runs, schedules
from redrive.stores.sqlite.database_thread import DatabaseThread
from redrive.stores.wake_listeners import WakeListeners
from redrive.stores.worker_reports import DependencyOrder, WorkerReport


class _Threads:
    """What the groups use of the store that they are a part of."""

    _reader: DatabaseThread
    _writer: DatabaseThread
    _listeners: WakeListeners


class SqliteObservations(_Threads):
    async def report(self, lease: Lease, report: WorkerReport | None, activity: Sequence[ActivityRow]) -> None:
        await self._writer.do_unflushed(observations.report, lease, report, activity)

    async def list_reports(self) -> list[WorkerReport]:
        return await self._reader.do(observations.list_reports)

    async def read_activity(self, query: ActivityQuery) -> list[ActivityRow]:
        return await self._reader.do(observations.read_activity, query)

    async def count_flows(self) -> list[FlowCount]:
        return await self._reader.do(observations.count_flows)

    async def count_matching_flows(self, query: FlowQuery) -> int:
        return await self._reader.do(observations.count_matching_flows, query)

    async def count_children(self, parents: Sequence[str], limit: int) -> dict[str, dict[FlowStatus, int]]:
        return await self._reader.do(observations.count_children, parents, limit)

    async def group_retries(self) -> list[RetryGroup]:
        return await self._reader.do(observations.group_retries)

    async def group_dead_letters(self, query: DeadQuery) -> list[DeadGroup]:
        return await self._reader.do(observations.group_dead_letters, query)

    async def set_dependency_order(self, order: DependencyOrder) -> None:
        await self._writer.do(observations.set_dependency_order, order)

    async def list_dependency_orders(self) -> list[DependencyOrder]:
        return await self._reader.do(observations.list_dependency_orders)


class SqliteSchedules(_Threads):
    async def due_schedules(self, now: float, limit: int = MOST_DUE) -> DueSchedules:
        return await self._reader.do(schedules.due_schedules, now, limit)

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        return await self._reader.do(schedules.find_schedule, name)

    async def list_schedules(self, after: str, limit: int) -> list[ScheduleRow]:
        return await self._reader.do(schedules.list_schedules, after, limit)

    async def write_schedule(
        self,
        row: ScheduleRow,
        flows: Sequence[NewFlow] = (),
        messages: Sequence[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> list[FlowRecord | None] | None:
        answers = await self._writer.do(schedules.write_schedule, row, flows, messages, now)
        if flows or messages:
            self._listeners.notify()
        return answers

    async def drop_schedule(self, name: str) -> bool:
        return await self._writer.do(schedules.drop_schedule, name)


class SqliteBatches(_Threads):
    async def add_batch(self, row: BatchRow) -> BatchRow | None:
        return await self._writer.do(batches.add_batch, row)

    async def complete_batch(self, name: str, total: int, digest: str) -> None:
        await self._writer.do(batches.complete_batch, name, total, digest)

    async def find_batch(self, name: str) -> BatchRow | None:
        return await self._reader.do(batches.find_batch, name)

    async def list_batches(self, query: BatchQuery) -> list[BatchRow]:
        return await self._reader.do(batches.list_batches, query)

    async def count_batches(self, names: Sequence[str]) -> dict[str, BatchCounts]:
        return await self._reader.do(batches.count_batches, names)

    async def list_ended_batches(self, limit: int) -> list[BatchRow]:
        return await self._reader.do(batches.list_ended_batches, limit)

    async def end_batch(self, name: str, now: float) -> None:
        await self._writer.do(batches.end_batch, name, now)

    async def prune_batches(self, done_before: float, limit: int) -> int:
        return await self._writer.do(batches.prune_batches, done_before, limit)


class SqliteFlowControl(_Threads):
    async def configure_queue(self, queue: str, changes: Mapping[str, Any]) -> None:
        await self._writer.do(flow_control.configure_queue, queue, changes)
        self._listeners.notify()

    async def queue_use(self, queue: str, key: str | None) -> QueueUse:
        return await self._reader.do(flow_control.queue_use, queue, key)

    async def release_key(self, flow_id: str) -> None:
        await self._writer.do(flow_control.release_key, flow_id)

    async def replace_input(self, flow_id: str, text: str, start_at: float) -> bool:
        return await self._writer.do(flow_control.replace_input, flow_id, text, start_at)


class SqliteRuns(_Threads):
    async def find_run(self, flow_id: str, back: int) -> EndedRun | None:
        return await self._reader.do(runs.find_run, flow_id, back)

    async def prune_runs(self, ended_before: float, limit: int) -> int:
        return await self._writer.do(runs.prune_runs, ended_before, limit)

    async def list_long_runs(self, limit: int) -> list[LongRun]:
        return await self._reader.do(runs.list_long_runs, limit)


class SqliteRegistry(_Threads):
    async def put_step(self, step: StepRow) -> bool:
        return await self._writer.do(registry.put_step, step)

    async def drop_step(self, name: str) -> bool:
        return await self._writer.do(registry.drop_step, name)

    async def list_steps(self) -> list[StepRow]:
        return await self._reader.do(registry.list_steps)

    async def add_key(self, key: KeyRow) -> None:
        await self._writer.do(registry.add_key, key)

    async def drop_key(self, id: str) -> bool:  # noqa: A002 - named as the field is
        return await self._writer.do(registry.drop_key, id)

    async def list_keys(self) -> list[KeyRow]:
        return await self._reader.do(registry.list_keys)

    async def expire_key(self, id: str, at: float) -> bool:  # noqa: A002 - named as the field is
        return await self._writer.do(registry.expire_key, id, at)

    async def mark_keys_used(self, used: Mapping[str, float]) -> None:
        await self._writer.do_unflushed(registry.mark_keys_used, used)

    async def add_audit_entries(self, entries: Sequence[AuditEntry], keep: int = MOST_AUDIT_ENTRIES) -> None:
        await self._writer.do(registry.add_audit_entries, entries, keep)

    async def list_audit_entries(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._reader.do(registry.list_audit_entries, query)
