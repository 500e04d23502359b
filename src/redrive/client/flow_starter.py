"""Adds flows to the store, by one of three strategies.

1. In the caller's own transaction, where one is given.
2. Eagerly: the worker of this process adds the flow and begins its first attempts in one transaction.
3. With one insert for all flows that are started at the same time.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from redrive.client.key_match import is_same_start
from redrive.errors import KeyTakenError, StoreError
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow
from redrive.worker.eager_start import was_added
from redrive.worker.worker import Worker

ADDED_AT_ONCE = 500


class FlowStarter:
    """Adds a flow by the first strategy that takes it."""

    def __init__(self, store: Store, worker: Callable[[], Worker | None]) -> None:
        """`worker` returns the worker of this process, where one runs."""
        self._store = store
        self._worker = worker
        self._inserts = GroupedInserts(store)

    async def start(self, flow: NewFlow, connection: Any = None) -> str:
        """Add the flow and return its id, or that of the flow that has its key and was started with the same input.

        connection: the caller's connection, with its transaction open.
        """
        if connection is not None:
            return await self._insert_on(connection, flow)
        return flow.id if await self._begin_here(flow) else await self._inserts.add(flow)

    async def _insert_on(self, connection: Any, flow: NewFlow) -> str:
        add_on = getattr(self._store, "add_flows_on", None)
        if add_on is None:
            raise ValueError(f"connection=... needs a PostgreSQL store; this one is {self._store.address}")
        return started_id(flow, (await add_on(connection, [flow]))[0])

    async def _begin_here(self, flow: NewFlow) -> bool:
        worker = self._worker()
        begun = False if worker is None else await worker.start_eagerly(flow)
        return await was_added(self._store, flow.id) if begun is None else begun


class GroupedInserts:
    """Inserts the flows that are started at the same time in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Flows with a key are inserted apart: such an insert may wait for another transaction with the same key, and
        # flows without a key must not wait with it.
        self._waiting: dict[bool, list[_Insert]] = {True: [], False: []}
        self._inserting: dict[bool, asyncio.Task[None]] = {}

    async def add(self, flow: NewFlow) -> str:
        """Insert the flow with the next group and return its id, as `FlowStarter.start` does."""
        loop, has_key = asyncio.get_running_loop(), flow.key is not None
        done: asyncio.Future[str] = loop.create_future()
        self._waiting[has_key].append((flow, done))
        if has_key not in self._inserting:
            self._inserting[has_key] = loop.create_task(self._insert_waiting(has_key))
        return await done

    async def _insert_waiting(self, has_key: bool) -> None:
        waiting = self._waiting[has_key]
        try:
            while waiting:
                group = waiting[:ADDED_AT_ONCE]
                del waiting[:ADDED_AT_ONCE]
                await self._insert(group)
        finally:
            del self._inserting[has_key]

    async def _insert(self, group: "list[_Insert]") -> None:
        try:
            answers = await self._store.add_flows([flow for flow, _ in group])
        except Exception as error:  # noqa: BLE001 - raised in the callers
            if len(group) > 1 and type(error) is StoreError:
                # The store refuses one of the flows: insert them one by one, so that only its caller gets the error.
                for one in group:
                    await self._insert([one])
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


def started_id(flow: NewFlow, existing: FlowRecord | None) -> str:
    """Return the id of the started flow; KeyTakenError when `existing`, which has its key, has another input."""
    if existing is None:
        return flow.id
    if existing.input != flow.input and not is_same_start(flow, existing):
        raise KeyTakenError(flow.key, existing.definition, existing.id)
    return existing.id
