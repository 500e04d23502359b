"""The PostgreSQL store: most verbs are one statement, kept in the `*statement*` modules beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from redrive.errors import CommitUnknownError, StoreError
from redrive.stores.caller_transaction import AddSteps, Database, Parameters, Rows, run_steps, with_dollars
from redrive.stores.claimed import Claimed
from redrive.stores.interface import EndListener, LeaseRenewer
from redrive.stores.leases import Lease, NewWorker, Reaped, WorkerRecord
from redrive.stores.postgres import list_statements, statements
from redrive.stores.postgres.add_flows import (
    Identity,
    add_flows_steps,
    add_flows_steps_on,
    identity_of,
)
from redrive.stores.postgres.batches import PostgresBatches
from redrive.stores.postgres.children import write_children
from redrive.stores.postgres.claims import Claimer
from redrive.stores.postgres.columns import flow_record, queue_record
from redrive.stores.postgres.commit_statement import commit_statement
from redrive.stores.postgres.connections import PLAN_LIFETIME, ConnectionPool, SharedConnection
from redrive.stores.postgres.flow_control import PostgresFlowControl
from redrive.stores.postgres.identifiers import channel_of, checked_schema, end_channel_of, literal
from redrive.stores.postgres.lease_renewer import PostgresLeaseRenewer
from redrive.stores.postgres.migrator import migrate, refuse_newer_schema
from redrive.stores.postgres.notifications import NotificationListener
from redrive.stores.postgres.observations import PostgresObservations
from redrive.stores.postgres.registry import PostgresRegistry
from redrive.stores.postgres.runs import PostgresRuns
from redrive.stores.postgres.schedules import PostgresSchedules
from redrive.stores.postgres.server import NO_FLUSH, USE_INDEXES, Server, refuse_shared_sessions
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
from redrive.stores.refusals import lease_lost

POOL_SIZE = 3
COMMIT_TIMEOUT_PER_TTL = 0.6
"""The share of a lease's ttl that a commit may take: the lease is extended on the same connection."""
CLAIM_TIMEOUT = 20.0
"""How many seconds a claim or a reap may take; a dead worker may leave many flows to release."""


class PostgresStore(
    PostgresBatches, PostgresFlowControl, PostgresObservations, PostgresRegistry, PostgresRuns, PostgresSchedules
):
    """Flows in a schema of a database.

    Uses up to six connections: one for commits, one for claims, one for notifications, and a pool for everything else.
    A worker uses one more, to renew its lease from a thread.
    """

    database: Database = "PostgreSQL"

    def __init__(self, url: str, schema: str = "redrive") -> None:
        self._schema = checked_schema(schema)
        self._server = server = Server(url, schema)
        self.address = server.address
        self._channel = channel_of(schema)
        self._channel_literal = literal(self._channel)
        self._commits = SharedConnection(server, USE_INDEXES, plan_lifetime=PLAN_LIFETIME)
        self._claims = SharedConnection(
            server, USE_INDEXES + NO_FLUSH, timeout=CLAIM_TIMEOUT, plan_lifetime=PLAN_LIFETIME
        )
        self._claimer = Claimer(self._claims, self._check_timeline)
        self._pool = ConnectionPool(server, POOL_SIZE)
        self._notifications = NotificationListener(server, self._channel, end_channel_of(schema))
        self._identity: Identity | None = None
        """The database, as the server names it; read when a caller's own connection must be compared with it."""
        self._fences: dict[int, int] = {}
        """Epoch -> the fence that its commits must match."""
        self._timelines: dict[int, str | None] = {}
        """Epoch -> the server's timeline when the lease was acquired."""
        self._unknown_commits: set[int] = set()
        """The epochs whose last commit may or may not have succeeded."""

    async def open(self) -> None:
        setup = SharedConnection(self._server, unlimited_use=True)
        setup.open()
        try:
            await setup.run(lambda connection: refuse_shared_sessions(self._server, connection))
            await setup.run(lambda connection: migrate(connection, self._schema, self.address))
        finally:
            await setup.close()
        for part in (self._commits, self._claims, self._pool, self._notifications):
            part.open()

    async def close(self) -> None:
        # All at once, so that a server which does not answer delays it only once.
        await asyncio.gather(*(part.close() for part in (self._notifications, self._commits, self._claims, self._pool)))

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.on_wake(wake)

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        return self._notifications.on_ended(ended)

    # Leases

    async def acquire_lease(self, worker: NewWorker, ttl: float) -> Lease:
        queues = None if worker.queues is None else list(worker.queues)
        # A connection that died silently must be noticed and replaced before the lease expires.
        self._commits.timeout = min(self._commits.timeout, max(ttl * COMMIT_TIMEOUT_PER_TTL, 1.0))
        await self._pool.run(lambda connection: refuse_newer_schema(connection, self._schema, self.address))
        values = worker.name, list(worker.definitions), queues, ttl, worker.version
        rows = await self._write(statements.ACQUIRE_LEASE, *values)
        lease = Lease(rows[0][0], worker.name, worker.version)
        self._timelines[lease.epoch] = self._server.timeline
        return lease

    def _check_timeline(self, lease: Lease) -> None:
        """Raise LeaseLostError after a failover: what the worker has in memory may be ahead of the new server's logs.

        The epoch itself may have been issued to another worker there.
        """
        if self._timelines.setdefault(lease.epoch, self._server.timeline) != self._server.timeline:
            raise lease_lost(lease, "the database failed over to a server that may lack the last commits")

    async def extend_lease(self, lease: Lease, ttl: float) -> bool:
        async def extend(connection: Any) -> bool:
            self._check_timeline(lease)
            return bool(await connection.fetchval(statements.EXTEND_LEASE, lease.epoch, ttl))

        # On the connection for commits, where nothing slow can delay it.
        return await self._commits.run(extend)

    def lease_renewer(self) -> LeaseRenewer:
        return PostgresLeaseRenewer(self._server, self._commits.timeout, self._check_timeline)

    async def accuse(self, lease: Lease, flow_id: str | None, blame: str = "") -> None:
        async def accuse(connection: Any) -> None:
            # After a failover the epoch may be another worker's.
            self._check_timeline(lease)
            await connection.execute(statements.ACCUSE, lease.epoch, flow_id, blame)

        # Not on the connection for commits: it need not be flushed, since it only matters if this process dies.
        await self._claims.run(accuse)

    async def release_lease(self, lease: Lease) -> None:
        async def release(connection: Any) -> None:
            self._check_timeline(lease)
            await self._end(connection, statements.RELEASE_LEASE, lease.epoch, lost=0)

        await self._claims.run(release)
        self._fences.pop(lease.epoch, None)
        self._timelines.pop(lease.epoch, None)
        self._unknown_commits.discard(lease.epoch)

    async def reap_leases(self) -> list[Reaped]:
        async def reap(connection: Any) -> list[Reaped]:
            if not await connection.fetchval(statements.ANY_EXPIRED):
                return []
            return await self._end(connection, statements.REAP_LEASES, lost=1)

        return await self._claims.run(reap)

    async def _end(self, connection: Any, end: str, *parameters: int, lost: int) -> list[Reaped]:
        async with connection.transaction():
            ended = await connection.fetch(end, *parameters)
            epochs, _, suspects, blames = ([row[column] for row in ended] for column in range(4))
            released = await connection.fetch(statements.RELEASE_FLOWS, epochs, self._channel, lost, suspects, blames)
        flows = {owner: count for owner, count, _ in released}
        return [Reaped(name, epoch, flows.get(epoch, 0)) for epoch, name, *_ in ended]

    async def list_workers(self) -> list[WorkerRecord]:
        return [
            WorkerRecord(
                **{**row, "definitions": tuple(row["definitions"]), "queues": row["queues"] and tuple(row["queues"])}
            )
            for row in await self._read(statements.LIST_WORKERS)
        ]

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        try:
            return await run_steps(add_flows_steps(self._schema, flows), self._write_step)
        except StoreError as error:
            if type(error) is not StoreError:
                raise
            # The store refused an id, perhaps that of a flow which was added before. By now it is committed.
            found = await self.find_flows([flow.id for flow in flows])
            known = {
                flow.id: found[flow.id] for flow in flows if flow.id in found and flow.was_added_as(found[flow.id])
            }
            if not known:
                raise
        new = iter(await self.add_flows([flow for flow in flows if flow.id not in known]))
        return [known[flow.id] if flow.id in known else next(new) for flow in flows]

    async def steps_to_add(self, flows: Sequence[NewFlow]) -> AddSteps:
        """Return the statements that add flows in the caller's own transaction."""
        if self._identity is None:
            self._identity = await self._pool.run(identity_of)
        # Only an open store has checked that the tables exist and fit this version.
        self._pool.check_open()
        return add_flows_steps_on(self._schema, flows, self._identity, self.address)

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        return await self._claimer.claim(lease, definitions, queues, limit, now, skipped)

    async def take_flow(self, lease: Lease, flow_id: str) -> FlowRecord | None:
        async def take(connection: Any) -> list[Any]:
            self._check_timeline(lease)
            rows: list[Any] = await connection.fetch(statements.TAKE_FLOW, lease.epoch, flow_id)
            return rows

        rows = await self._claims.run(take)
        if not rows:
            raise lease_lost(lease)
        return None if rows[0][0] is None else flow_record(rows[0])

    async def commit(self, lease: Lease, batch: Batch) -> None:
        statement, parameters = commit_statement(batch, self._channel_literal)
        fence = self._fences.get(lease.epoch, 0)

        async def write(connection: Any) -> str:
            self._check_timeline(lease)
            if not (batch.children or batch.sends):
                status: str = await connection.execute(statement, lease.epoch, fence, *parameters)
                return status
            # Statements of their own, because one statement cannot change a row twice: a flow that the batch changes
            # or adds may get a message, too.
            async with connection.transaction():
                status = await connection.execute(statement, lease.epoch, fence, *parameters)
                if not status.endswith(" 0"):
                    await write_children(connection, self._schema, batch)
            return status

        try:
            status = await self._commits.run(write, writes=True)
        except (CommitUnknownError, asyncio.CancelledError):
            self._unknown_commits.add(lease.epoch)
            raise
        if status.endswith(" 0"):
            raise lease_lost(lease)
        if batch.flows and (ended := batch.ended):
            # Not in the commit itself: commits that notify wait for each other, until each is on disk.
            self._notifications.announce(ended)

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        statement = statements.FENCE_AND_LAST_BATCH if lease.epoch in self._unknown_commits else statements.LAST_BATCH

        async def ask(connection: Any) -> tuple[bool, int]:
            self._check_timeline(lease)
            # The row lock keeps the lease from being taken away, and others from writing events of its flows.
            async with connection.transaction():
                row = await connection.fetchrow(statement, lease.epoch)
                if row is None:
                    raise lease_lost(lease)
                number, fence = row
                if batch.events:
                    # A statement of its own, which sees what was committed while the first one waited.
                    return await connection.fetchval(statements.HAS_EVENT, *batch.events[0][:2]), fence
                return number >= batch.number, fence

        is_committed, self._fences[lease.epoch] = await self._commits.run(ask)
        self._unknown_commits.discard(lease.epoch)
        return is_committed

    async def read_events(self, flow_ids: Sequence[str]) -> dict[str, list[EventRow]]:
        logs: dict[str, list[EventRow]] = {flow_id: [] for flow_id in flow_ids}
        for row in await self._read(statements.READ_EVENTS, list(logs)):
            logs[row[0]].append(EventRow._make(row))
        return logs

    async def read_events_after(self, flow_id: str, seq: int, limit: int) -> list[EventRow]:
        return [EventRow._make(row) for row in await self._read(statements.READ_EVENTS_AFTER, flow_id, seq, limit)]

    async def read_heartbeats(self, flow_ids: Sequence[str]) -> list[HeartbeatRow]:
        return [HeartbeatRow._make(row) for row in await self._read(statements.READ_HEARTBEATS, list(flow_ids))]

    async def find_flow(self, flow_id: str) -> FlowRecord | None:
        return (await self.find_flows([flow_id])).get(flow_id)

    async def find_flows(self, flow_ids: Sequence[str]) -> dict[str, FlowRecord]:
        rows = await self._read(statements.FIND_FLOWS, list(flow_ids))
        return {flow.id: flow for flow in map(flow_record, rows)}

    async def list_flows(self, query: FlowQuery) -> list[FlowRecord]:
        statement, parameters = list_statements.list_flows(query)
        return [flow_record(row) for row in await self._read(statement, *parameters)]

    async def prune(self, finished_before: float, limit: int) -> int:
        pruned: int = (await self._write(statements.PRUNE, finished_before, limit))[0][0]
        return pruned

    # Inbox

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        rows = await self._write(statements.SEND, now, body, self._channel, flow_id, reopens)
        return rows[0][0] if rows else None

    async def read_inbox(self, lease: Lease) -> list[Message]:
        rows = await self._claims.run(lambda connection: connection.fetch(statements.READ_INBOX, lease.epoch))
        return [Message(*row) for row in rows]

    async def count_unread(self, flow_id: str) -> int:
        count: int = (await self._read(statements.COUNT_UNREAD, flow_id))[0][0]
        return count

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        statement, parameters = list_statements.list_retries(query)
        return [RetryRow(**row) for row in await self._read(statement, *parameters)]

    async def list_dead_letters(self, query: DeadQuery) -> list[DeadLetter]:
        statement, parameters = list_statements.list_dead_letters(query)
        return [DeadLetter(**row) for row in await self._read(statement, *parameters)]

    async def close_dead_letters(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        if message is None:
            rows = await self._write(statements.CLOSE_DEAD_LETTERS, list(flow_ids), state, by, why, now)
        else:
            parameters = (now, message, self._channel, list(flow_ids), state, by, why)
            rows = await self._write(statements.CLOSE_DEAD_LETTERS_AND_SEND, *parameters)
        return [flow_id for (flow_id,) in rows]

    async def set_queue_pause(self, queue: str, pause: QueuePause | None) -> bool:
        if pause is None:
            rows = await self._write(statements.RESUME_QUEUE, queue, self._channel)
        else:
            rows = await self._write(statements.PAUSE_QUEUE, queue, pause.at, pause.by, pause.why, self._channel)
        changed: bool = rows[0][0]
        return changed

    async def list_queues(self, now: float, queue: str | None = None) -> list[QueueRecord]:
        if queue is None:
            rows = await self._read(statements.LIST_QUEUES, now)
        else:
            rows = await self._read(statements.LIST_QUEUE, now, queue)
        return [queue_record(row) for row in rows]

    async def count_retries(self) -> dict[str, int]:
        return dict(await self._read(statements.COUNT_RETRIES))

    async def _read(self, statement: str, *parameters: Any) -> list[Any]:
        rows: list[Any] = await self._pool.run(lambda connection: connection.fetch(statement, *parameters))
        return rows

    async def _write(self, statement: str, *parameters: Any) -> list[Any]:
        rows: list[Any] = await self._pool.run(lambda connection: connection.fetch(statement, *parameters), writes=True)
        return rows

    async def _transact(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def in_transaction(connection: Any) -> Any:
            async with connection.transaction():
                return await work(connection)

        return await self._pool.run(in_transaction, writes=True)

    async def _write_step(self, statement: str, parameters: Parameters) -> Rows:
        return await self._write(with_dollars(statement), *parameters)
