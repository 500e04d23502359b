"""The SQLite store: one thread writes, another reads, and both belong to one file."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from io import FileIO

from redrive.stores.records import (
    Batch,
    Claimed,
    DeadLetter,
    DeadQuery,
    DeadState,
    EventRow,
    FlowQuery,
    FlowRecord,
    FlowStatus,
    HeartbeatRow,
    KeyRow,
    Lease,
    Message,
    NewFlow,
    NewWorker,
    QueueRecord,
    Reaped,
    RetryQuery,
    RetryRow,
    StepRow,
    WorkerRecord,
)
from redrive.stores.sqlite import leases, reading, registry, writing
from redrive.stores.sqlite.claims import claim
from redrive.stores.sqlite.commits import commit, committed
from redrive.stores.sqlite.database_thread import DatabaseThread
from redrive.stores.sqlite.log_room import make_room
from redrive.stores.sqlite.opening import OpenedFile, connect, migrate, refuse_newer
from redrive.stores.sqlite.worker_locks import WorkerLocks

BUSY_FROM = 10
"""Commits after which a worker makes room in the log: once, for 20 ms, and each commit after it is a fifth quicker."""

SHORTEST_BUSY_TIMEOUT = 1.0

_Listener = tuple[asyncio.AbstractEventLoop, Callable[[], None]]


class SqliteStore:
    """Flows in the file at `path`, which other processes of this machine may use at the same time.

    A write waits up to `busy_timeout` seconds for those of others, and then raises StoreUnavailableError; not so long
    beside a worker whose lease is short.
    """

    def __init__(self, path: str, busy_timeout: float = 5.0) -> None:
        self.address = f"sqlite:///{path}"
        # The process may change its folder, and files are looked for at all times. What is no file is refused later.
        self._path = path = path if path in ("", ":memory:") else os.path.abspath(path)
        self._busy_timeout = busy_timeout
        self._locks = WorkerLocks(path)
        self._file: OpenedFile | None = None
        self._writer = DatabaseThread(
            self.address, "BEGIN IMMEDIATE", self._connect_writer, self._check_file, busy_timeout
        )
        self._reader = DatabaseThread(self.address, "BEGIN", self._connect, self._check_file)
        self._listeners: dict[object, _Listener] = {}
        self._seen = 0
        """The version of the data when it was last looked at."""

    async def open(self) -> None:
        await self._writer.start()
        try:
            await self._reader.start()
        except BaseException:
            await self._writer.stop()
            raise

    async def close(self) -> None:
        self._listeners.clear()
        await self._reader.stop()
        await self._writer.stop()
        self._locks.let_go()

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, self._busy_timeout, self.address)

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            self._file = OpenedFile(self._path, self.address)
            migrate(connection, self.address)
            self._seen = _data_version(connection)
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
        listener = object()
        self._listeners[listener] = (asyncio.get_running_loop(), wake)
        self._writer.look(self._look_for_changes_by_others)

        def end() -> None:
            self._listeners.pop(listener, None)
            if not self._listeners:
                self._writer.look(None)

        return end

    def _look_for_changes_by_others(self, connection: sqlite3.Connection) -> None:
        version = _data_version(connection)
        if version != self._seen:
            self._seen = version
            self._wake()

    def _wake(self) -> None:
        here = asyncio._get_running_loop()
        for loop, wake in list(self._listeners.values()):
            if loop is here:
                wake()
                continue
            # Where the event loop is closed, nobody listens any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake)

    # Workers: leases and claims die with the machine, so they are not flushed to the disk by themselves.

    async def join(self, worker: NewWorker, ttl: float) -> Lease:
        await self._reader.do(refuse_newer, self.address)
        taken: list[FileIO] = []
        # That another process holds the database must be found out, and told, while the lease lasts.
        self._writer.busy_timeout = min(self._writer.busy_timeout, max(ttl / 2, SHORTEST_BUSY_TIMEOUT))
        try:
            return await self._writer.do_unflushed(leases.join, self._locks, worker, ttl, taken)
        except Exception:
            for lock in taken:
                self._locks.drop(lock)
            raise

    async def renew(self, lease: Lease, ttl: float) -> bool:
        return await self._writer.do_unflushed(leases.renew, lease, ttl)

    async def leave(self, lease: Lease) -> None:
        if await self._writer.do_unflushed(leases.leave, self._locks, lease):
            self._wake()

    async def reap(self) -> list[Reaped]:
        reaped = await self._writer.do_unflushed(leases.reap, self._locks)
        if any(one.flows for one in reaped):
            self._wake()
        return reaped

    async def list_workers(self) -> list[WorkerRecord]:
        return await self._reader.do(leases.list_workers, self._locks)

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        answers = await self._writer.do(writing.add_flows, flows)
        self._wake()
        return answers

    async def claim(
        self, lease: Lease, definitions: Sequence[str], queues: Sequence[str] | None, limit: int, now: float
    ) -> Claimed:
        return await self._writer.do_unflushed(claim, lease, definitions, queues, limit, now)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        await self._writer.do(commit, lease, batch)
        if batch.flows:
            self._wake()
        if batch.number == BUSY_FROM:
            # Without waiting for it, and without a word where it fails: the log grows by itself then.
            self._writer.do_unflushed(make_room, self._path).add_done_callback(asyncio.Future.exception)

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        # By the writer: after a commit that is still on its way.
        return await self._writer.do(committed, lease, batch)

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        return await self._reader.do(reading.read_events, flow_ids)

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        return await self._reader.do(reading.read_events_after, flow_id, seq, limit)

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
        return await self._reader.do(reading.read_heartbeats, flow_ids)

    async def find_flow(self, flow_id: str) -> FlowRecord | None:
        return (await self.find_flows([flow_id])).get(flow_id)

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
        return await self._reader.do(reading.find_flows, flow_ids)

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]:
        return await self._reader.do(reading.list_flows, query)

    async def prune(self, finished_before: float, limit: int) -> int:
        return await self._writer.do(writing.prune, finished_before, limit)

    # Mail

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        status = await self._writer.do(writing.send, flow_id, body, now, reopens)
        self._wake()
        return status

    async def read_mail(self, lease: Lease) -> list[Message]:
        return await self._reader.do(reading.read_mail, lease)

    async def count_mail(self, flow_id: str) -> int:
        return await self._reader.do(reading.count_mail, flow_id)

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        return await self._reader.do(reading.list_retries, query)

    async def list_dead(self, query: DeadQuery) -> list[DeadLetter]:
        return await self._reader.do(reading.list_dead, query)

    async def settle_dead(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        settled = await self._writer.do(writing.settle_dead, flow_ids, state, by, why, now, message)
        self._wake()
        return settled

    async def set_queue_limit(self, queue: str, limit: int | None) -> None:
        await self._writer.do(writing.set_queue_limit, queue, limit)
        self._wake()

    async def list_queues(self) -> list[QueueRecord]:
        return await self._reader.do(reading.list_queues)

    # The catalogue of steps, and the keys that let people in

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


def _data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection commits, be it of this process or another."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)
