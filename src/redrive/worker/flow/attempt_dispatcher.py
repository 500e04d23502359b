"""Hand an attempt to the runner, once its start is durable."""

from typing import Any

from redrive.errors import UnknownDefinitionError
from redrive.flows.action import Executor
from redrive.flows.driver import Handler
from redrive.flows.item import Item
from redrive.runners.attempt import Attempt, Beat, Slot
from redrive.runners.outcome_listener import OutcomeListener
from redrive.runners.runner import Runner
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.work_reports import trace_attempt
from redrive.worker.slots import ExecutionSlots


class AttemptDispatcher:
    def __init__(
        self,
        runner: Runner,
        slots: ExecutionSlots,
        listener: OutcomeListener,
        on_beat: Beat,
    ) -> None:
        self._runner = runner
        self._slots = slots
        self._listener = listener
        self._on_beat = on_beat

    def dispatch(
        self,
        log: FlowLog,
        item: Item,
        handler: Handler | UnknownDefinitionError,
        executor: Executor,
        slot: Slot,
        values: dict[str, Any] | None,
    ) -> None:
        """Run the attempt in the slot acquired for it. `values`: its arguments, where they are decoded already."""
        delivery = item.delivery
        if log.released or item.state != "running" or delivery is None:
            # Cancelled or released before the start was durable.
            self._slots.give_back(log.flow_id, item.number, slot)
            return
        attempt = Attempt(
            flow_id=log.flow_id,
            item=item.number,
            step=item.step,
            number=item.attempt,
            delivery_token=delivery,
            policy=item.policy,
            timeout=None if item.timeout_at is None else max(0.001, item.timeout_at - item.attempt_began),
            timeout_at=item.timeout_at,
            details=item.details,
            on_beat=self._on_beat,
            executor=executor,
            slot=slot,
            traceparent=trace_attempt(log, item, handler),
        )
        self._slots.begin(attempt)
        if isinstance(handler, UnknownDefinitionError):
            self._listener.failed(attempt, handler, poison=True)
        else:
            self._runner.start(handler, attempt, bytes(item.args).decode() if values is None else values)
