"""Flows that need actions which this process does not know: they are given back unharmed, for others to take."""

import functools
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.failures.redaction import redact

if TYPE_CHECKING:
    from redrive.worker.flow_run import FlowRun
    from redrive.worker.worker import Worker

log = logging.getLogger("redrive")

ASK_AGAIN = 5.0
"""Seconds until such a flow may be claimed again; it wakes at a whole second, by which it is told from others."""

COURTESY = 0.2
"""So much later a worker that lacks actions asks for such flows: one that knows them goes first."""

MOST_TOLD = 1000


class HandingOn:
    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._told: set[tuple[str, str]] = set()
        self._until = 0.0

    def look_at(self, wake: float) -> float:
        """When to ask for what wakes then."""
        given_back = wake == int(wake) and wake <= self._until + 2 * ASK_AGAIN
        return wake + COURTESY if given_back else wake

    def hand_on(self, run: "FlowRun", missing: Sequence[str], has_mail: bool) -> None:
        """Give the flow back, as it was, until a little later."""
        worker = self._worker
        until = self._until = float(math.ceil(worker.now() + ASK_AGAIN))
        for name in missing:
            self._tell(run.record.definition, name)
        if has_mail:
            # One with unread mail would be ready at once, and come back here at once.
            worker.forget(run)
            worker.alarms.at(until, functools.partial(run.release, "waiting", until))
        else:
            run.release("waiting", until)

    def _tell(self, definition: str, name: str) -> None:
        if (definition, name) in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add((definition, name))
        log.warning(
            "%s needs action %r, which this worker does not know: its flows are left to others; name the module that "
            "registers it too",
            redact(definition, 100),
            redact(name, 100),
        )
