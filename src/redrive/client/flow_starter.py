"""Adds flows to the store, by one of three strategies.

1. In the caller's own transaction, where one is given.
2. Eagerly: the worker of this process adds the flow and begins its first attempts in one transaction.
3. With one insert for all flows that are started at the same time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from redrive.client.caller_connections import refuse_unless_open, transaction_of
from redrive.client.key_match import is_same_start
from redrive.client.readable_payloads import refuse_unreadable
from redrive.client.repeated_starts import MOST_DEBOUNCES, NEVER_AGAIN, RepeatedStarts
from redrive.errors import CommitUnknownError, KeyTakenError, StoreError, WrongDatabaseError
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.caller_transaction import run_steps, wrong_database
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow
from redrive.worker.store_retries import retry_until_available
from redrive.worker.worker import Worker

ADDED_AT_ONCE = 500


class FlowStarter:
    """Adds a flow by the first strategy that takes it."""

    def __init__(self, store: Store, worker: Callable[[], Worker | None]) -> None:
        """`worker` returns the worker of this process, where one runs."""
        self._store = store
        self._worker = worker
        self._inserts = GroupedInserts(store)

    async def start(self, flow: NewFlow, connection: Any = None, repeated: RepeatedStarts = NEVER_AGAIN) -> str:
        """Add the flow and return its id, or that of the flow that has its key and was started with the same input.

        connection: the caller's connection, with its transaction open. repeated: what the key means to a later start.
        """
        await refuse_unreadable(self._store)
        if repeated != NEVER_AGAIN:
            return await self._start_repeatedly(flow, repeated)
        if connection is not None:
            return await self._insert_on(connection, flow)
        begun = await self._begin_here(flow)
        if begun is None:
            # Its commit may still be on its way to the disk, where nobody can read it yet.
            return started_id(flow, (await add_until_known(self._store, [flow]))[0])
        return flow.id if begun else await self._inserts.add(flow)

    async def _insert_on(self, connection: Any, flow: NewFlow) -> str:
        steps_to_add = getattr(self._store, "steps_to_add", None)
        if steps_to_add is None:
            raise WrongDatabaseError(
                f"connection: it needs a store in PostgreSQL or SQLite, and this one is {self._store.address}; "
                "start the flow without connection="
            )
        transaction = await transaction_of(connection)
        refuse_unless_open(transaction)
        if transaction.database != getattr(self._store, "database", ""):
            raise wrong_database(transaction.database, self._store.address)
        return started_id(flow, (await run_steps(await steps_to_add([flow]), transaction.fetch))[0])

    async def _start_repeatedly(self, flow: NewFlow, repeated: RepeatedStarts) -> str:
        """Start a flow that may take the key over from an earlier one, or change that."""
        store = self._store
        while True:
            existing = (await add_until_known(store, [flow]))[0]
            if existing is None or existing.id == flow.id:
                return flow.id
            if repeated.debounce is not None:
                latest = existing.created_at + MOST_DEBOUNCES * repeated.debounce
                start_at = max(flow.created_at, min(flow.start_at, latest))
                if await retry_until_available(store, store.replace_input, existing.id, flow.input, start_at):
                    return existing.id
            elif flow.created_at < existing.created_at + (repeated.unique_for or 0.0):
                return started_id(flow, existing)
            # One of several starts at the same time gets the key; the others find its flow.
            await retry_until_available(store, store.release_key, existing.id)

    async def _begin_here(self, flow: NewFlow) -> bool | None:
        worker = self._worker()
        return False if worker is None else await worker.start_eagerly(flow)


class GroupedInserts:
    """Inserts the flows that are started at the same time in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Flows with a key are inserted apart: such an insert may wait for another transaction with the same key, and
        # flows without a key must not wait with it. Nor must small ones wait with those whose inputs are large.
        self._waiting: dict[_Kind, list[_Insert]] = {kind: [] for kind in get_args(_Kind)}
        self._inserting: dict[_Kind, asyncio.Task[None]] = {}

    async def add(self, flow: NewFlow) -> str:
        """Insert the flow with the next group and return its id, as `FlowStarter.start` does."""
        loop, kind = asyncio.get_running_loop(), _kind_of(flow)
        done: asyncio.Future[str] = loop.create_future()
        self._waiting[kind].append((flow, done))
        if kind not in self._inserting:
            self._inserting[kind] = loop.create_task(self._insert_waiting(kind))
        return await done

    async def _insert_waiting(self, kind: "_Kind") -> None:
        waiting, at_once = self._waiting[kind], 1 if kind == "large" else ADDED_AT_ONCE
        try:
            while waiting:
                group = waiting[:at_once]
                del waiting[:at_once]
                await self._insert(group)
        finally:
            del self._inserting[kind]

    async def _insert(self, group: "list[_Insert]", may_exist: bool = False) -> None:
        """may_exist: an insert of these flows was sent before, and its outcome is unknown."""
        flows = [flow for flow, _ in group]
        try:
            answers = await (add_until_known(self._store, flows) if may_exist else self._store.add_flows(flows))
        except Exception as error:  # noqa: BLE001 - raised in the callers
            is_unknown = isinstance(error, CommitUnknownError)
            if is_unknown and not may_exist:
                await self._insert(group, may_exist=True)
                return
            if len(group) > 1 and (is_unknown or type(error) is StoreError):
                # The store refuses one of the flows: insert them one by one, so that only its caller gets the error.
                for one in group:
                    await self._insert([one], may_exist)
                return
            for _, done in group:
                if not done.done():
                    done.set_exception(error)
            return
        for (flow, done), existing in zip(group, answers, strict=True):
            if done.done():
                continue
            try:
                done.set_result(started_id(flow, existing))
            except Exception as error:  # noqa: BLE001 - raised in the caller; the others wait for their answers
                done.set_exception(error)


_Insert = tuple[NewFlow, "asyncio.Future[str]"]
_Kind = Literal["keyed", "plain", "large"]


def _kind_of(flow: NewFlow) -> _Kind:
    if len(flow.input) > LARGE_JSON:
        return "large"
    return "plain" if flow.key is None else "keyed"


async def add_until_known(store: Store, flows: Sequence[NewFlow]) -> list[FlowRecord | None]:
    """Add flows that may have been added before; while the store is unavailable, wait for it.

    Adding is idempotent and waits for earlier writes, so that its answer is true whatever became of them.
    """
    try:
        return await retry_until_available(store, store.add_flows, flows)
    except StoreError as error:
        told = f"{error}; flow {flows[0].id} was being started, and may or may not have been added"
        raise CommitUnknownError(told) from None


def started_id(flow: NewFlow, existing: FlowRecord | None) -> str:
    """Return the id of the started flow; KeyTakenError when `existing`, which has its key, has another input."""
    if existing is None:
        return flow.id
    # The input that a flow was started with is gone once it has continued as new.
    if existing.input != flow.input and not existing.run_from and not is_same_start(flow, existing):
        raise KeyTakenError(flow.key, existing.definition, existing.id)
    return existing.id
