"""Contain internal errors: park the flow that triggered the error, so that the other flows keep running."""

import logging
from collections.abc import Callable, Sequence

from redrive.failures.redaction import redact
from redrive.failures.traces import trace_of
from redrive.stores.records import Message
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.recovery.unreplayable import park_unreplayable
from redrive.worker.slots import ExecutionSlots

OnFault = Callable[[str, BaseException], None]


class FaultHandler:
    def __init__(self, flows: FlowTable, slots: ExecutionSlots, on_fault: OnFault | None = None) -> None:
        """on_fault: called with the flow's id and the error before the fault is handled; for tests."""
        self._flows = flows
        self._slots = slots
        self._on_fault = on_fault

    def engine_failed(self, run: FlowRun, error: BaseException, messages: Sequence[Message] = ()) -> None:
        """Park the flow without its unfinished turn. If that fails, ignore the flow until this worker's lease ends.

        messages: the messages whose delivery failed.
        """
        if self._on_fault is not None:
            self._on_fault(run.id, error)
        if run.log.is_stored and (run.log.released or self._parked(run, error, messages)):
            log_flow(logging.ERROR, run.id, "the engine failed\n%s", trace_of(error))
            return
        ignored = "internal error; the flow is ignored until this worker ends"
        log_flow(logging.ERROR, run.id, "%s\n%s", ignored, trace_of(error))
        run.log.released = True
        self._flows.take_out(run)
        run.driver.discard()
        run.alarm.cancel()

    def _parked(self, run: FlowRun, error: BaseException, messages: Sequence[Message]) -> bool:
        problem = f"internal error: {redact(repr(error), 500)}; see the worker's log for the traceback"
        try:
            run.starter.stop_waiting_for_slots()
            self._slots.stop_all_but(run.id, ())
            # A log with half a turn in it could never be replayed.
            run.log.withdraw()
            park_unreplayable(run, [], problem, [one for one in messages if one.id not in run.log.messages_taken])
        except Exception as failed:  # noqa: BLE001 - the flow is left alone then
            log_flow(logging.ERROR, run.id, "it could not be parked\n%s", trace_of(failed))
        return run.log.released
