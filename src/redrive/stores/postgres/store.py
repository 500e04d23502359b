"""The PostgreSQL store: each verb is one statement where it can be; see `statements` and its neighbours for those."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import astuple

from redrive.errors import CommitUnknownError, StoreError
from redrive.stores.postgres import statements
from redrive.stores.postgres.claiming import Claiming
from redrive.stores.postgres.columns import flow_record
from redrive.stores.postgres.commit_statement import commit_statement
from redrive.stores.postgres.connections import BY_INDEX, PLANS_LAST, WITHOUT_WAITING, Lane, Lanes, Server
from redrive.stores.postgres.faults import lease_lost
from redrive.stores.postgres.listening import Listening
from redrive.stores.postgres.listing import dead_list, flow_list, retry_list
from redrive.stores.postgres.migrating import migrate, refuse_newer
from redrive.stores.postgres.names import channel_of, checked_schema, literal
from redrive.stores.postgres.pooling import refuse_shared_sessions
from redrive.stores.postgres.start_in_transaction import add_flows_on, add_flows_on_sync, adding, answered
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

MOST_OTHER_CONNECTIONS = 3
OF_THE_LEASE = 0.6
"""What a commit may take of it: the lease is renewed every third of it, through the same connection."""
CLAIMED_WITHIN = 20.0
"""Seconds that a claim may take; those of a worker that is gone may be many to hand on."""


class PostgresStore:
    """Up to six connections: one writes commits, one claims, one listens, and the rest do everything else."""

    def __init__(self, url: str, schema: str = "redrive") -> None:
        self._schema = checked_schema(schema)
        self._server = server = Server(url, schema)
        self.address = server.address
        self._channel = channel_of(schema)
        self._channel_literal = literal(self._channel)
        self._commits = Lane(server, BY_INDEX, plans_last=PLANS_LAST)
        self._claims = Lane(server, BY_INDEX + WITHOUT_WAITING, within=CLAIMED_WITHIN, plans_last=PLANS_LAST)
        self._claiming = Claiming(self._claims)
        self._others = Lanes(server, MOST_OTHER_CONNECTIONS)
        self._listening = Listening(server, self._channel)
        self._fences: dict[int, int] = {}
        """Epoch -> the fence that its commits must find."""
        self._unsure: set[int] = set()
        """The leases whose last commit may or may not have happened."""

    async def open(self) -> None:
        lane = Lane(self._server, lengthy=True)
        lane.open()
        try:
            await lane.run(lambda connection: refuse_shared_sessions(self._server, connection))
            await lane.run(lambda connection: migrate(connection, self._schema, self.address))
        finally:
            await lane.close()
        for lanes in (self._commits, self._claims, self._others):
            lanes.open()
        self._listening.open()

    async def close(self) -> None:
        # A server that does not answer is waited for once, and not for each connection.
        await asyncio.gather(*(one.close() for one in (self._listening, self._commits, self._claims, self._others)))

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._listening.on_wake(wake)

    # Workers

    async def join(self, worker: NewWorker, ttl: float) -> Lease:
        queues = None if worker.queues is None else list(worker.queues)
        # A connection that died without a word must be found out, and another one opened, while the lease lasts.
        self._commits.within = min(self._commits.within, max(ttl * OF_THE_LEASE, 1.0))
        await self._others.run(lambda connection: refuse_newer(connection, self._schema, self.address))
        epoch = await self._write(statements.JOIN, worker.name, list(worker.definitions), queues, ttl)
        return Lease(epoch[0][0], worker.name)

    async def renew(self, lease: Lease, ttl: float) -> bool:
        # With the commits: nothing slow is ever in the way there.
        return bool(await self._commits.run(lambda connection: connection.fetchval(statements.RENEW, lease.epoch, ttl)))

    async def leave(self, lease: Lease) -> None:
        await self._claims.run(lambda connection: self._end(connection, statements.LEAVE, lease.epoch, lost=0))
        self._fences.pop(lease.epoch, None)
        self._unsure.discard(lease.epoch)

    async def reap(self) -> list[Reaped]:
        async def reap(connection: Any) -> list[Reaped]:
            if not await connection.fetchval(statements.ANY_EXPIRED):
                return []
            return await self._end(connection, statements.REAP, lost=1)

        return await self._claims.run(reap)

    async def _end(self, connection: Any, end: str, *parameters: int, lost: int) -> list[Reaped]:
        async with connection.transaction():
            ended = await connection.fetch(end, *parameters)
            epochs = [epoch for epoch, _ in ended]
            handed_on = await connection.fetch(statements.HAND_ON, epochs, self._channel, lost)
        flows = {owner: count for owner, count, _ in handed_on}
        return [Reaped(name, epoch, flows.get(epoch, 0)) for epoch, name in ended]

    async def list_workers(self) -> list[WorkerRecord]:
        return [
            WorkerRecord(
                **{**row, "definitions": tuple(row["definitions"]), "queues": row["queues"] and tuple(row["queues"])}
            )
            for row in await self._read(statements.LIST_WORKERS)
        ]

    # Flows

    async def add_flows(self, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        return await answered(adding(self._schema, flows), self._write)

    async def add_flows_on(self, connection: Any, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        """Add flows in the caller's own transaction, on their connection of asyncpg or psycopg (async)."""
        # Nothing else would be asked of this store, and the tables may not be there, or not as this code knows them.
        self._others.check_open()
        return await add_flows_on(connection, self._schema, flows)

    def add_flows_on_sync(self, connection: Any, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
        """The same on a psycopg connection without async."""
        return add_flows_on_sync(connection, self._schema, flows)

    async def claim(
        self, lease: Lease, definitions: Sequence[str], queues: Sequence[str] | None, limit: int, now: float
    ) -> Claimed:
        return await self._claiming.claim(lease, definitions, queues, limit, now)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        statement, parameters = commit_statement(batch, self._channel_literal)
        fence = self._fences.get(lease.epoch, 0)
        try:
            status: str = await self._commits.run(
                lambda connection: connection.execute(statement, lease.epoch, fence, *parameters),
                writes=True,
            )
        except (CommitUnknownError, asyncio.CancelledError):
            self._unsure.add(lease.epoch)
            raise
        if status.endswith(" 0"):
            raise lease_lost(lease)

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        statement = statements.NUMBERED_FOR_SURE if lease.epoch in self._unsure else statements.NUMBERED

        async def ask(connection: Any) -> tuple[bool, int]:
            # Until the end nobody can take the lease away, and write lines of the same flows.
            async with connection.transaction():
                row = await connection.fetchrow(statement, lease.epoch)
                if row is None:
                    raise lease_lost(lease)
                number, fence = row
                if batch.events:
                    # As a statement of its own: it sees what was committed while the first one waited.
                    return await connection.fetchval(statements.HAS_EVENT, *batch.events[0][:2]), fence
                return number >= batch.number, fence

        is_there, self._fences[lease.epoch] = await self._commits.run(ask)
        self._unsure.discard(lease.epoch)
        return is_there

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
        statement, parameters = flow_list(query)
        return [flow_record(row) for row in await self._read(statement, *parameters)]

    async def prune(self, finished_before: float, limit: int) -> int:
        pruned: int = (await self._write(statements.PRUNE, finished_before, limit))[0][0]
        return pruned

    # Mail

    async def send(self, flow_id: str, body: str, now: float, reopens: bool = False) -> FlowStatus | None:
        rows = await self._write(statements.SEND, now, body, self._channel, flow_id, reopens)
        return rows[0][0] if rows else None

    async def read_mail(self, lease: Lease) -> list[Message]:
        rows = await self._claims.run(lambda connection: connection.fetch(statements.READ_MAIL, lease.epoch))
        return [Message(*row) for row in rows]

    async def count_mail(self, flow_id: str) -> int:
        count: int = (await self._read(statements.COUNT_MAIL, flow_id))[0][0]
        return count

    # Retries, dead letters, queues

    async def list_retries(self, query: RetryQuery) -> list[RetryRow]:
        statement, parameters = retry_list(query)
        return [RetryRow(**row) for row in await self._read(statement, *parameters)]

    async def list_dead(self, query: DeadQuery) -> list[DeadLetter]:
        statement, parameters = dead_list(query)
        return [DeadLetter(**row) for row in await self._read(statement, *parameters)]

    async def settle_dead(
        self, flow_ids: Sequence[str], state: DeadState, by: str, why: str, now: float, message: str | None
    ) -> list[str]:
        if message is None:
            rows = await self._write(statements.SETTLE_DEAD, list(flow_ids), state, by, why, now)
        else:
            rows = await self._write(statements.REDRIVE, now, message, self._channel, list(flow_ids), state, by, why)
        return [flow_id for (flow_id,) in rows]

    async def set_queue_limit(self, queue: str, limit: int | None) -> None:
        if limit is None:
            await self._write(statements.DROP_QUEUE_LIMIT, queue, self._channel)
        else:
            await self._write(statements.SET_QUEUE_LIMIT, queue, limit, self._channel)

    async def list_queues(self) -> list[QueueRecord]:
        return [QueueRecord(**row) for row in await self._read(statements.LIST_QUEUES)]

    # The catalogue of steps, and the keys that let people in

    async def put_step(self, step: StepRow) -> bool:
        new: bool = (await self._write(statements.PUT_STEP, step.name, step.body, step.updated_at))[0][0]
        return new

    async def drop_step(self, name: str) -> bool:
        return bool(await self._write(statements.DROP_STEP, name))

    async def list_steps(self) -> list[StepRow]:
        return [StepRow(**row) for row in await self._read(statements.LIST_STEPS)]

    async def add_key(self, key: KeyRow) -> None:
        if not await self._write(statements.ADD_KEY, *astuple(key)):
            raise StoreError(f"{self.address}: there is a key {key.id} already; nothing was added")

    async def drop_key(self, id: str) -> bool:  # noqa: A002 - named as the field is
        return bool(await self._write(statements.DROP_KEY, id))

    async def list_keys(self) -> list[KeyRow]:
        return [KeyRow(**row) for row in await self._read(statements.LIST_KEYS)]

    async def _read(self, statement: str, *parameters: Any) -> list[Any]:
        rows: list[Any] = await self._others.run(lambda connection: connection.fetch(statement, *parameters))
        return rows

    async def _write(self, statement: str, *parameters: Any) -> list[Any]:
        rows: list[Any] = await self._others.run(
            lambda connection: connection.fetch(statement, *parameters), writes=True
        )
        return rows
