"""The SQLite store: one thread writes to the file, and another reads from it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from io import FileIO

from redrive.stores.any_loop_renewer import AnyLoopRenewer
from redrive.stores.caller_transaction import AddSteps, Database
from redrive.stores.claimed import Claimed
from redrive.stores.interface import EndListener, LeaseRenewer
from redrive.stores.leases import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.queues import QueuePause, QueueRecord
from redrive.stores.records import (
    Batch,
    DeadLetter,
    DeadQuery,
    DeadState,
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
from redrive.stores.refusals import not_open
from redrive.stores.sqlite import leases, reads, writes
from redrive.stores.sqlite.add_flows_on import add_flows_steps_on
from redrive.stores.sqlite.claims import claim, take_flow
from redrive.stores.sqlite.commits import commit, committed
from redrive.stores.sqlite.connection import connect, preallocate_wal
from redrive.stores.sqlite.database_thread import DatabaseThread
from redrive.stores.sqlite.file_identity import OpenedFile
from redrive.stores.sqlite.migrator import migrate, refuse_newer_schema
from redrive.stores.sqlite.store_time import keep_up
from redrive.stores.sqlite.verb_groups import (
    SqliteBatches,
    SqliteFlowControl,
    SqliteObservations,
    SqliteRegistry,
    SqliteRuns,
    SqliteSchedules,
)
from redrive.stores.sqlite.worker_locks import WorkerLocks
from redrive.stores.wake_listeners import WakeListeners

PREALLOCATE_AFTER = 10
"""How many batches a worker commits before it preallocates the log: 20 ms once, and commits are a fifth faster."""

MIN_BUSY_TIMEOUT = 1.0


class SqliteStore(SqliteFlowControl, SqliteObservations, SqliteSchedules, SqliteBatches, SqliteRegistry, SqliteRuns):
    """Flows in the file at `path`, which other processes of this machine can use at the same time.

    A write waits up to `busy_timeout` seconds for other writers, or less while a worker has a short lease, and then
    raises StoreUnavailableError.
    """

    database: Database = "SQLite"

    def __init__(self, path: str, busy_timeout: float = 5.0) -> None:
        self.address = f"sqlite:///{path}"
        # Absolute, since the process may change its folder. Whatever is not a file is refused when it is opened.
        self._path = path = path if path in ("", ":memory:") else os.path.abspath(path)
        self._busy_timeout = busy_timeout
        self._locks = WorkerLocks(path)
        self._file: OpenedFile | None = None
        self._writer = DatabaseThread(
            self.address, "BEGIN IMMEDIATE", self._connect_writer, self._check_file, busy_timeout
        )
        self._reader = DatabaseThread(self.address, "BEGIN", self._connect, self._check_file)
        self._listeners, self._end_listeners = WakeListeners(), WakeListeners()
        self._seen_version = 0
        """The version of the data at the last poll."""

    async def open(self) -> None:
        await self._writer.start()
        try:
            await self._reader.start()
        except BaseException:
            await self._writer.stop()
            raise

    async def close(self) -> None:
        self._listeners.clear()
        self._end_listeners.clear()
        await self._reader.stop()
        await self._writer.stop()
        self._locks.close_all()

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, self._busy_timeout, self.address, self._locks)

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            migrate(connection, self.address)
            self._file = OpenedFile(self._path, self.address)
            keep_up(connection, self._locks)
            self._seen_version = _data_version(connection)
            connection.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    # Wake-ups

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._listen(self._listeners, wake)

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        return self._listen(self._end_listeners, ended)

    def _listen(self, listeners: WakeListeners, listener: Callable[..., None]) -> Callable[[], None]:
        remove = listeners.add(listener)
        self._writer.poll(self._notice_changes)

        def end() -> None:
            remove()
            if not self._listeners and not self._end_listeners:
                self._writer.poll(None)

        return end

    def _notice_changes(self, connection: sqlite3.Connection) -> None:
        """Notify the listeners when another connection has committed."""
        version = _data_version(connection)
        if version != self._seen_version:
            self._seen_version = version
            self._listeners.notify()
            self._end_listeners.notify(None)

    # Leases. They and the claims die with the machine, so they need not be flushed to disk.

    async def acquire_lease(self, worker: NewWorker, ttl: float) -> Lease:
        await self._reader.do(refuse_newer_schema, self.address)
        taken: list[FileIO] = []
        # A lock held by another process must be noticed and reported before the lease expires.
        self._writer.busy_timeout = min(self._writer.busy_timeout, max(ttl / 2, MIN_BUSY_TIMEOUT))
        try:
            return await self._writer.do_unflushed(leases.acquire_lease, self._locks, worker, ttl, taken)
        except Exception:
            for lock in taken:
                self._locks.drop(lock)
            raise

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        return await self._writer.do_unflushed(leases.extend_lease, lease, ttl)

    def lease_renewer(self) -> LeaseRenewer:
        return AnyLoopRenewer(self)

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        await self._writer.do_unflushed(leases.accuse, lease, flow_id, blame)

    async def release_lease(self, lease: Lease) -> None:
        if await self._writer.do_unflushed(leases.release_lease, self._locks, lease):
            self._listeners.notify()

    async def reap_leases(self) -> list[Reaped]:
        reaped = await self._writer.do_unflushed(leases.reap_leases, self._locks)
        if any(one.flows for one in reaped):
            self._listeners.notify()
        return reaped

    async def list_workers(self) -> list[WorkerRecord]:
        return await self._reader.do(leases.list_workers, self._locks)

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        answers = await self._writer.do(writes.add_flows, flows)
        self._listeners.notify()
        return answers

    async def steps_to_add(self, flows: Sequence[NewFlow]) -> AddSteps:
        """Return the statements that add flows in the caller's own transaction."""
        if self._file is None:
            raise not_open(self.address)
        self._check_file()
        return add_flows_steps_on(flows, self._path, self.address)

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        return await self._writer.do_unflushed(claim, lease, definitions, queues, limit, now, skipped)

    async def take_flow(self, lease: Lease, flow_id: str) -> FlowRecord | None:
        return await self._writer.do_unflushed(take_flow, lease, flow_id)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        await self._writer.do(commit, lease, batch)
        if batch.flows or batch.children or batch.sends:
            self._listeners.notify()
            if self._end_listeners and (ended := batch.ended):
                self._end_listeners.notify(ended)
        if batch.number == PREALLOCATE_AFTER:
            # Nobody waits for it, and a failure is ignored: the log then grows by itself.
            self._writer.do_unflushed(preallocate_wal, self._path).add_done_callback(asyncio.Future.exception)

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        # On the writer's thread, so after a commit that is still in its queue.
        return await self._writer.do(committed, lease, batch)

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        return await self._reader.do(reads.read_events, flow_ids)

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        return await self._reader.do(reads.read_events_after, flow_id, seq, limit)

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
        return await self._reader.do(reads.read_heartbeats, flow_ids)

    async def find_flow(self, flow_id: str) -> FlowRecord | None:
        return (await self.find_flows([flow_id])).get(flow_id)

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
        return await self._reader.do(reads.find_flows, flow_ids)

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]:
        return await self._reader.do(reads.list_flows, query)

    async def prune(self, finished_before: float, limit: int) -> int:
        return await self._writer.do(writes.prune, finished_before, limit)

    # Inbox

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        status = await self._writer.do(writes.send, flow_id, body, now, reopens)
        self._listeners.notify()
        return status

    async def read_inbox(self, lease: Lease) -> list[Message]:
        return await self._reader.do(reads.read_inbox, lease)

    async def count_unread(self, flow_id: str) -> int:
        return await self._reader.do(reads.count_unread, flow_id)

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        return await self._reader.do(reads.list_retries, query)

    async def list_dead_letters(self, query: DeadQuery) -> list[DeadLetter]:
        return await self._reader.do(reads.list_dead_letters, query)

    async def close_dead_letters(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        closed = await self._writer.do(writes.close_dead_letters, flow_ids, state, by, why, now, message)
        self._listeners.notify()
        return closed

    async def set_queue_pause(self, queue: str, pause: QueuePause | None) -> bool:
        changed = await self._writer.do(writes.set_queue_pause, queue, pause)
        self._listeners.notify()
        return changed

    async def list_queues(self, now: float, queue: str | None = None) -> list[QueueRecord]:
        return await self._reader.do(reads.list_queues, now, queue)

    async def count_retries(self) -> dict[str, int]:
        return await self._reader.do(reads.count_retries)


def _data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits, in this process or another."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)
