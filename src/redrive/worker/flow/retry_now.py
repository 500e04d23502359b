"""Begin the next attempts of a flow now, instead of at the times for which its items wait."""

import logging

from redrive.flows.events import RetriedNow
from redrive.flows.messages import RetryNow
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_run import FlowRun


def retry_now(run: FlowRun, said: RetryNow, at: float) -> None:
    """Skip the waits. An open circuit, a spent budget or a step without a free place still holds items back."""
    waiting = [item for item in run.log.history.items.values() if item.state == "waiting"]
    if run.log.released or not waiting:
        said_by = said.by or "someone"
        log_flow(logging.INFO, run.id, "nothing of it waits any more; the request of %s to retry is dropped", said_by)
        return
    run.log.append(at, RetriedNow(by=said.by, why=said.why))
    for item in waiting:
        run.starter.wait_for_retry(item, at, at)
    run.wake()
