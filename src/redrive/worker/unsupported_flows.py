"""Release flows that need actions, or a key, which this process does not have, so that other workers take them."""

import functools
import logging
import math
from collections.abc import Callable, Sequence

from redrive.failures.redaction import redact
from redrive.stores.encoded_text import how_to_decode
from redrive.stores.records import FlowChange, FlowRecord
from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable
from redrive.worker.journal import Journal
from redrive.worker.timer_queue import TimerQueue

log = logging.getLogger("redrive")

CLAIMED_AGAIN_AFTER = 5.0
"""Seconds until such a flow may be claimed again. It wakes at a whole second, which tells it from other flows."""

HEAD_START = 0.2
"""Seconds by which a worker that lacks actions claims such flows later than a worker that knows them."""

MOST_WARNINGS = 1000


class UnsupportedFlows:
    def __init__(self, journal: Journal, flows: FlowTable, timers: TimerQueue, now: Callable[[], float]) -> None:
        self._journal = journal
        self._flows = flows
        self._timers = timers
        self._now = now
        self._warned: set[tuple[str, str]] = set()
        self._until = 0.0

    def claim_time(self, wake: float) -> float:
        """When to claim a flow that wakes at `wake`: later, if this worker has just released it as unsupported."""
        released = wake == int(wake) and wake <= self._until + 2 * CLAIMED_AGAIN_AFTER
        return wake + HEAD_START if released else wake

    def release(self, run: FlowRun, missing: Sequence[str], has_messages: bool) -> None:
        """Release the flow unchanged for a few seconds."""
        until = self._wake_time()
        for name in missing:
            self._warn(run.log.record.definition, name)
        if has_messages:
            # A flow with unread messages would be ready at once, and claimed here again.
            self._flows.remove(run)
            self._timers.schedule(until, functools.partial(run.log.release, "waiting", until))
        else:
            run.log.release("waiting", until)

    def leave(self, record: FlowRecord, key: str) -> None:
        """Release a claimed flow whose payloads need a key that this process lacks, unchanged for a few seconds."""
        until = self._wake_time()
        if (record.definition, key) not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add((record.definition, key))
            name, what = redact(record.definition, 100), how_to_decode(key)
            log.warning("flows of %s are left to other workers: their payloads are %s", name, what)
        change = FlowChange(
            flow_id=record.id,
            status="waiting",
            wake_at=until,
            messages_read=record.messages_read,
            lost_owners=record.lost_owners,
        )
        release = functools.partial(self._release, change)
        if record.messages_sent > record.messages_read:
            self._timers.schedule(until, release)  # as above
        else:
            release()

    def _release(self, change: FlowChange) -> None:
        self._journal.batch.flows.append(change)
        self._journal.wake()

    def _wake_time(self) -> float:
        self._until = float(math.ceil(self._now() + CLAIMED_AGAIN_AFTER))
        return self._until

    def _warn(self, definition: str, name: str) -> None:
        if (definition, name) in self._warned or len(self._warned) >= MOST_WARNINGS:
            return
        self._warned.add((definition, name))
        log.warning(
            "%s needs action %r, which this worker does not know: its flows are left to other workers; start this "
            "worker with the module that registers it, too",
            redact(definition, 100),
            redact(name, 100),
        )
