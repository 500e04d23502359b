"""Park a flow whose log cannot be replayed, or end it where a message says so."""

import logging
from collections.abc import Sequence

from redrive.flows.events import Line, Redriven, Resumed
from redrive.flows.history import fold
from redrive.flows.messages import Cancel, ManualResolution, Redrive, Resume, Signal
from redrive.flows.replay import last_decisive_line
from redrive.stores.records import Message
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow.manual_resolution import Outcome, redriven
from redrive.worker.flow.signals import keep
from redrive.worker.inbox import cancel_unreplayable, take


def park_unreplayable(run: FlowRun, lines: list[Line], problem: str, messages: Sequence[Message]) -> None:
    """Park the flow. Its messages are read: unread ones would wake the flow again and again."""
    parked = fold(lines)
    run.log.history.parked = parked.parked
    for message in messages:
        said = take(run, message)
        if isinstance(said, Cancel):
            run.driver.discard()
            cancel_unreplayable(run, parked, said)
            return
        if isinstance(said, Resume | Redrive):
            # Recorded, so that the log shows who tried.
            run.log.append(run.log.now(), Resumed(by=said.by, why=said.why))
        elif isinstance(said, ManualResolution) and said.item in parked.items and parked.items[said.item].is_open:
            # Applied once the flow goes on; a redrive before it may wait for that, too.
            last = last_decisive_line(lines)
            since = last.event.since if last is not None and isinstance(last.event, Redriven) else run.log.seq + 1
            at, event = run.log.now(), redriven(said, said.item, since, midway=True)
            run.log.append_applied(at, event)
            parked.apply(at, event)
            if isinstance(said, Outcome):
                run.log.journal.drop_retry(run.id, said.item)
            else:
                run.starter.list_retry(parked.items[said.item])
        elif isinstance(said, Signal):
            keep(run.log, parked, said)
        elif said is not None:
            log_flow(logging.ERROR, run.id, "it cannot go on, and a message to it is dropped: %s", type(said).__name__)
    run.log.park(problem)
