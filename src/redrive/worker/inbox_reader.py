"""Read the messages for the flows of this worker, and deliver them."""

import asyncio
from collections.abc import Callable

from redrive.determinism.clock import current_clock
from redrive.stores.encoded_text import key_of
from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.worker.flow_table import FlowTable
from redrive.worker.inbox import Inbox
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.store_retries import retry_until_available


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
        self._callbacks: list[tuple[str, Callable[[], None]]] = []
        self._clock = current_clock()

    def wake(self) -> None:
        """There may be messages."""
        self._wake.set()

    def after(self, flow_id: str, callback: Callable[[], None]) -> None:
        """Call back for a flow once all messages that are in the store now have been delivered."""
        self._callbacks.append((flow_id, callback))
        self._wake.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            poll = loop.call_later(self._poll, self._wake.set)
            await self._wake.wait()
            poll.cancel()
            self._wake.clear()
            if len(self._flows):
                await self.read()

    async def read(self) -> None:
        """Deliver all messages that are in the store now."""
        waiting = len(self._callbacks)
        before = self._flows.by_id.copy()
        # What a message says must not come after a time that passed while it was read.
        with self._clock.busy():
            messages = await retry_until_available(self._store, self._store.read_inbox, self._lease)
        # Only now: if the read is cancelled, the next one calls them.
        callbacks, self._callbacks = self._callbacks[:waiting], self._callbacks[waiting:]
        for message in messages:
            run = self._flows.by_id.get(message.flow_id)
            if run is not before.get(message.flow_id):
                # Loaded since the inbox was read: it may have read the message in its last life here.
                self._wake.set()
            elif key_of(message.body) is not None:
                # Unread until a worker that has the key gets the flow.
                continue
            elif run is not None and not run.log.released and message.id not in run.log.messages_taken:
                self._flows.mark_busy(run.id)
                try:
                    self._inbox.deliver(run, message)
                except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
                    self._faults.engine_failed(run, error, [message])
        for flow_id, callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - as above
                if (run := self._flows.by_id.get(flow_id)) is not None:
                    self._faults.engine_failed(run, error)
