"""Receive the outcomes of attempts from the runner, and hand each to its flow."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from redrive.failures.failure import Failure
from redrive.flows.values.signature import NOT_READ
from redrive.runners.attempt import Attempt
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.internal_errors import FaultHandler
from redrive.worker.slots import ExecutionSlots


class OutcomeRouter:
    """Implements the runner's OutcomeListener."""

    def __init__(
        self,
        flows: FlowTable,
        slots: ExecutionSlots,
        faults: FaultHandler,
        held: Mapping[str, list[Callable[[], None]]],
    ) -> None:
        """held: takes the reports of flows that are being rebuilt, by flow id."""
        self._flows = flows
        self._slots = slots
        self._faults = faults
        self._held = held

    def failed(
        self,
        attempt: Attempt,
        error: BaseException,
        *,
        timed_out: bool = False,
        poison: bool = False,
        failure: Failure | None = None,
    ) -> None:
        if (held := self._held.get(attempt.flow_id)) is not None:
            report = functools.partial(self.failed, timed_out=timed_out, poison=poison, failure=failure)
            held.append(functools.partial(report, attempt, error))
        elif (run := self._flows.by_id.get(attempt.flow_id)) is None:
            self._slots.discard(attempt)
        else:
            try:
                run.rest(run.attempts.attempt_failed(attempt, error, failure, timed_out, poison))
            except Exception as fault:  # noqa: BLE001 - a fault in one flow must not stop the others
                self._contain(run, attempt, fault)

    def succeeded(self, attempt: Attempt, result: str, read: Any = NOT_READ) -> None:
        if (held := self._held.get(attempt.flow_id)) is not None:
            held.append(functools.partial(self.succeeded, attempt, result, read))
        elif (run := self._flows.by_id.get(attempt.flow_id)) is None:
            self._slots.discard(attempt)
        else:
            try:
                run.rest(run.attempts.attempt_succeeded(attempt, result, read))
            except Exception as fault:  # noqa: BLE001 - as above
                self._contain(run, attempt, fault)

    def accepted(self, attempt: Attempt) -> None:
        if (held := self._held.get(attempt.flow_id)) is not None:
            held.append(functools.partial(self.accepted, attempt))
        elif (run := self._flows.by_id.get(attempt.flow_id)) is None:
            self._slots.discard(attempt)
        else:
            try:
                run.rest(run.attempts.attempt_accepted(attempt))
            except Exception as fault:  # noqa: BLE001 - as above
                self._contain(run, attempt, fault)

    def _contain(self, run: FlowRun, attempt: Attempt, fault: Exception) -> None:
        self._slots.discard(attempt)
        self._faults.engine_failed(run, fault)
