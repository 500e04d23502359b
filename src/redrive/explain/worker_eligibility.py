"""Find the workers that can run a flow, and say what the others lack."""

from collections.abc import Sequence

from redrive.flows.registry import ACTION
from redrive.flows.stored_inputs import required_actions
from redrive.formatting.text import format_count
from redrive.stores.leases import WorkerRecord
from redrive.stores.records import FlowRecord

DOCTOR = "doctor"
"""The worker name that `redrive doctor` registers to test whether the store is writable. It claims no flows."""

ENDER = "forced end"
"""The worker name under which a flow is ended that no worker knows."""


class WorkerEligibility:
    """Which of the live workers can run a flow."""

    def __init__(self, record: FlowRecord, live_workers: Sequence[WorkerRecord]) -> None:
        self._record = record
        self._workers = live_workers
        knowing = [worker for worker in live_workers if record.definition in worker.definitions]
        self._with_definition = [worker for worker in knowing if record.version in (None, worker.version)]
        self.lacks_version = bool(knowing) and not self._with_definition
        """Whether workers know the definition, and none has the version that the flow is pinned to."""
        needed = required_actions(record.definition, record.input) if self._with_definition else ()
        missing: list[set[str]] = [
            {name for name in needed if ACTION + name not in worker.definitions} for worker in self._with_definition
        ]
        self.capable = [worker for worker, lacks in zip(self._with_definition, missing, strict=True) if not lacks]
        """Those that know the definition and all its actions, whatever queues they serve."""
        fewest = min(missing, key=len, default=set())
        self.missing_actions = sorted(fewest)
        """The actions that the best equipped worker still lacks."""

    def any_eligible(self) -> bool:
        """Whether a worker with the definition and all its actions serves the flow's queue."""
        return any(worker.queues is None or self._record.queue in worker.queues for worker in self.capable)

    def missing_worker(self) -> str:
        """Describe the worker that is missing: "a worker that knows action 'ship'"; empty if no action is missing."""
        if not self.missing_actions:
            return ""
        names = ", ".join(repr(name) for name in self.missing_actions)
        return f"a worker that knows action{'s' if len(self.missing_actions) > 1 else ''} {names}"

    def why_none(self) -> str:
        """Say why no live worker is eligible."""
        definition = self._record.definition
        if not self._workers:
            return "no worker is alive"
        if self.lacks_version:
            return f"it waits for a worker of version {self._record.version}, and none is alive"
        if not self._with_definition:
            return f"none of the {format_count(len(self._workers), 'live worker')} knows {definition}"
        if self.missing_actions:
            return f"it waits for {self.missing_worker()}: no live worker does"
        return f"no live worker that knows {definition} takes queue {self._record.queue}"
