"""The paused queues, as the last claim told them: hold their flows that are in memory, and continue them later."""

from collections.abc import Set as AbstractSet

from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.internal_errors import FaultHandler


class PausedQueues:
    def __init__(self, flows: FlowTable, faults: FaultHandler) -> None:
        self._flows = flows
        self._faults = faults
        self.names: set[str] = set()
        """Flows look up their queue here; only this class changes it."""

    def update(self, names: AbstractSet[str] | None) -> None:
        """Apply what a claim told: None for nothing."""
        if names is None or names == self.names:
            return
        paused, resumed = names - self.names, self.names - names
        self.names.clear()
        self.names.update(names)
        for run in self._flows:
            queue = run.log.record.queue
            if run.log.released or (queue not in paused and queue not in resumed):
                continue
            self._flows.mark_busy(run.id)
            try:
                if queue in paused:
                    _hold(run)
                else:
                    run.begin_or_continue()
            except Exception as error:  # noqa: BLE001 - a fault in one flow must not stop the others
                self._faults.engine_failed(run, error)


def _hold(run: FlowRun) -> None:
    """Begin no more attempts; without a running one, the flow leaves memory."""
    run.starter.stop_waiting_for_slots()
    run.rest(run.log.now())
