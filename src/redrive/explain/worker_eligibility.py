"""Which of the workers can carry out a flow, and what keeps the others from it."""

from collections.abc import Sequence

from redrive.flows.registry import ACTION
from redrive.flows.stored_inputs import required_actions
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, WorkerRecord

VISITOR = "doctor"
"""As whom `redrive doctor` finds out whether the store can be written to. It takes nothing up."""


async def workers_in(store: Store) -> list[WorkerRecord]:
    """Those that work, or did until their lease ran out."""
    return [one for one in await store.list_workers() if one.name != VISITOR]


class WhoCan:
    """`workers`: those that are alive."""

    def __init__(self, record: FlowRecord, workers: Sequence[WorkerRecord]) -> None:
        self._record = record
        self._workers = workers
        self.knowing = [worker for worker in workers if record.definition in worker.definitions]
        """Those that ask for such flows."""
        needed = required_actions(record.definition, record.input) if self.knowing else ()
        lacking: list[set[str]] = [
            {name for name in needed if ACTION + name not in worker.definitions} for worker in self.knowing
        ]
        self.able = [worker for worker, lacks in zip(self.knowing, lacking, strict=True) if not lacks]
        """Those that know its actions too."""
        fewest = min(lacking, key=len, default=set())
        self.missing = sorted(fewest)
        """The actions that keep it waiting: those that the worker lacks which lacks fewest."""

    def __bool__(self) -> bool:
        """Whether someone takes it, when it is due."""
        return any(worker.queues is None or self._record.queue in worker.queues for worker in self.able)

    @property
    def missing_in_words(self) -> str:
        """What it waits for, such as: a worker that knows action 'ship'; empty where no action is missing."""
        if not self.missing:
            return ""
        names = ", ".join(repr(name) for name in self.missing)
        return f"a worker that knows action{'s' if len(self.missing) > 1 else ''} {names}"

    def why_nobody(self) -> str:
        """Why no worker takes it, where none does."""
        definition = self._record.definition
        if not self._workers:
            return "no worker is alive"
        if not self.knowing:
            count = "1 live worker" if len(self._workers) == 1 else f"{len(self._workers)} live workers"
            return f"none of the {count} knows {definition}"
        if self.missing:
            return f"it waits for {self.missing_in_words}: none that is alive does"
        return f"no live worker that knows {definition} takes queue {self._record.queue}"
