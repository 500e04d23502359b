"""Read the messages for the flows of this worker, and deliver them."""

import asyncio
import logging
from collections.abc import Callable

from redrive.failures.traces import trace_of
from redrive.stores.interface import Store
from redrive.stores.records import Lease
from redrive.worker.flow_table import FlowTable
from redrive.worker.inbox import Inbox
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.store_retries import retry_until_available

log = logging.getLogger("redrive")


class InboxReader:
    def __init__(
        self, store: Store, lease: Lease, flows: FlowTable, inbox: Inbox, faults: FaultHandler, poll: float
    ) -> None:
        """poll: seconds between reads when the store sends no wake-up."""
        self._store = store
        self._lease = lease
        self._flows = flows
        self._inbox = inbox
        self._faults = faults
        self._poll = poll
        self._wake = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []

    def wake(self) -> None:
        """There may be messages."""
        self._wake.set()

    def after(self, callback: Callable[[], None]) -> None:
        """Call back once all messages that are in the store now have been delivered."""
        self._callbacks.append(callback)
        self._wake.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            poll = loop.call_later(self._poll, self._wake.set)
            await self._wake.wait()
            poll.cancel()
            self._wake.clear()
            if len(self._flows):
                await self._read()

    async def _read(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for message in await retry_until_available(self._store, self._store.read_inbox, self._lease):
            run = self._flows.by_id.get(message.flow_id)
            if run is not None and not run.log.released and message.id not in run.log.messages_taken:
                self._flows.mark_busy(run.id)
                try:
                    self._inbox.deliver(run, message)
                except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
                    self._faults.engine_failed(run, error, [message])
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - as above
                log.error("a callback after reading the inbox failed; the worker goes on\n%s", trace_of(error))
