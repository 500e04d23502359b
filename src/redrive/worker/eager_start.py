"""Start flows eagerly: one transaction adds a flow and begins its first attempts in the process that starts it.

No other worker is asked and nothing is claimed. So a worker does this only when it has caught up with the flows that
others started; a flow with a key or a large input, or in a queue with settings or a pause, is added like any other.
"""

import asyncio
import contextvars
from collections.abc import Callable, Container, Sequence

import msgspec

from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.leases import Lease
from redrive.stores.records import FlowRecord, NewFlow
from redrive.worker.claimer import Claimer
from redrive.worker.flow_table import FlowTable
from redrive.worker.journal import Journal
from redrive.worker.settings import WorkerSettings
from redrive.worker.slots import ExecutionSlots
from redrive.worker.version_pins import VersionPins


class EagerStart:
    def __init__(
        self,
        lease: Lease,
        settings: WorkerSettings,
        journal: Journal,
        flows: FlowTable,
        slots: ExecutionSlots,
        claimer: Claimer,
        begin: Callable[[FlowRecord], bool],
        paused_queues: Container[str],
        pins: VersionPins,
    ) -> None:
        """begin: begins a flow that has no log yet; False when this process cannot run it."""
        self._lease = lease
        self._settings = settings
        self._journal = journal
        self._flows = flows
        self._slots = slots
        self._claimer = claimer
        self._begin = begin
        self._paused_queues = paused_queues
        self._pins = pins
        self._waiting: dict[str, asyncio.Future[bool | None]] = {}
        self._limited_queues: set[str] = set()
        """Queues with settings, learned from refused commits: their flows must be claimed."""
        self._context = contextvars.copy_context()
        """Flows run in the worker's context, whoever starts them."""

    async def add(self, flow: NewFlow) -> bool | None:
        """Whether the flow was added; None when the worker ended before the outcome was known."""
        journal = self._journal
        if not self._accepts(flow, journal.batch.new_flows):
            return False
        if flow.version is None and (pin := self._pins.of(flow.definition)):
            flow = msgspec.structs.replace(flow, version=pin)
        record = FlowRecord(
            id=flow.id,
            definition=flow.definition,
            input=flow.input,
            queue=flow.queue,
            priority=flow.priority,
            key=flow.key,
            status="running",
            created_at=flow.created_at,
            start_at=flow.start_at,
            wake_at=flow.start_at,
            owner=self._lease.epoch,
            claims=1,
            messages_sent=0,
            messages_read=0,
            finished_at=None,
            traceparent=flow.traceparent,
            version=flow.version,
        )
        batch = journal.batch
        if not self._context.run(self._begin, record):
            return False
        batch.new_flows.append(flow)
        added: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._waiting[flow.id] = added
        journal.when_durable(flow.id, self._answer, flow.id, True)
        return await added

    def _accepts(self, flow: NewFlow, new_flows: Sequence[NewFlow]) -> bool:
        settings = self._settings
        return (
            flow.key is None
            and flow.version in (None, settings.version)
            and flow.concurrency_key is None
            # Such starts take turns, however many there are.
            and len(flow.input) <= LARGE_JSON
            and flow.start_at <= flow.created_at
            and self._claimer.caught_up
            and self._flows.busy < settings.concurrency
            # While attempts wait for slots here, other workers may have free ones.
            and not self._slots.has_waiters
            and (settings.queues is None or flow.queue in settings.queues)
            and flow.queue not in self._limited_queues
            and flow.queue not in self._paused_queues
            # One queue per transaction, so that a refusal tells which queue has a limit.
            and (not new_flows or new_flows[0].queue == flow.queue)
        )

    def refuse(self, flows: Sequence[NewFlow]) -> None:
        """Forget flows that the store did not accept; the client adds them like any other flow."""
        for flow in flows:
            self._limited_queues.add(flow.queue)
            run = self._flows.by_id.get(flow.id)
            if run is not None:
                run.log.is_stored = False
                run.log.released = True
                self._flows.remove(run)
            self._answer(flow.id, False)

    def close(self) -> None:
        """Answer callers that still wait: the worker has ended and writes nothing more."""
        for flow_id in list(self._waiting):
            self._answer(flow_id, None)

    def _answer(self, flow_id: str, answer: bool | None) -> None:
        future = self._waiting.pop(flow_id, None)
        if future is not None and not future.done():
            future.set_result(answer)
