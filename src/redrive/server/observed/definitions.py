"""What is registered, by how many workers, and how often its steps fail."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from redrive.server.contract.models import ResponseModel
from redrive.stores.activity import ActivityRow
from redrive.stores.counts import DeadGroup, FlowCount
from redrive.stores.leases import WorkerRecord

MOST_DEFINITIONS = 1000


class KnownPolicy(NamedTuple):
    text: str
    origin: str
    dependency: str | None


class StepStatistics(ResponseModel, frozen=True):
    """A step, and what its attempts came to within the last hour."""

    name: str
    policy: str | None
    """In redrive's own notation; null where the server does not have the code."""
    policy_from: str | None
    """What the policy was set for: action, or default for none."""
    dependency: str | None
    """What it talks to; null for nothing that has a name."""
    succeeded: int
    retried: int
    gave_up: int
    mean_seconds: float | None
    """Of the attempts that succeeded; null without any."""


class FlowsOfDefinition(ResponseModel, frozen=True):
    active: int
    """Flows that have not finished."""
    dead: int
    """Open dead letters."""


class DefinitionResponse(ResponseModel, frozen=True):
    name: str
    """workflow:Billing, action:charge, graph:order, script:..."""
    kind: str
    """workflow, action, graph, script."""
    workers: int
    """How many workers that are alive can run it."""
    steps: list[StepStatistics]
    """Those that were attempted within the last hour."""
    flows: FlowsOfDefinition


def definitions(
    workers: Sequence[WorkerRecord],
    flows: Sequence[FlowCount],
    dead: Sequence[DeadGroup],
    activity: Sequence[ActivityRow],
    policy_of: Callable[[str], KnownPolicy | None],
) -> list[DefinitionResponse]:
    """Return all that are known, by name. `activity`: by definition, step and dependency. `policy_of`: of an action."""
    able: Counter[str] = Counter()
    for worker in workers:
        if worker.alive:
            able.update(set(worker.definitions))
    active: Counter[str] = Counter()
    for counted in flows:
        active[counted.definition] += counted.count
    letters: Counter[str] = Counter()
    for group in dead:
        letters[group.definition] += group.count
    rows: dict[str, list[ActivityRow]] = {}
    for row in activity:
        rows.setdefault(row.definition, []).append(row)
    names = sorted({*able, *active, *letters, *rows} - {""})[:MOST_DEFINITIONS]
    return [
        DefinitionResponse(
            name=name,
            kind=name.partition(":")[0],
            workers=able[name],
            steps=_steps(rows.get(name, ()), policy_of),
            flows=FlowsOfDefinition(active=active[name], dead=letters[name]),
        )
        for name in names
    ]


def _steps(rows: Sequence[ActivityRow], policy_of: Callable[[str], KnownPolicy | None]) -> list[StepStatistics]:
    counts: dict[str, Counter[str]] = {}
    seconds: dict[str, float] = {}
    dependencies: dict[str, str] = {}
    for row in rows:
        if row.step:
            counts.setdefault(row.step, Counter())[row.outcome] += row.count
            if row.outcome == "succeeded":
                seconds[row.step] = seconds.get(row.step, 0.0) + row.seconds
            if row.dependency:
                dependencies[row.step] = row.dependency
    found = []
    for name, of_step in sorted(counts.items()):
        known, succeeded = policy_of(name), of_step["succeeded"]
        found.append(
            StepStatistics(
                name=name,
                policy=None if known is None else known.text,
                policy_from=None if known is None else known.origin,
                dependency=dependencies.get(name) or (None if known is None else known.dependency),
                succeeded=succeeded,
                retried=of_step["retried"],
                gave_up=of_step["gave_up"],
                mean_seconds=round(seconds[name] / succeeded, 6) if succeeded else None,
            )
        )
    return found
