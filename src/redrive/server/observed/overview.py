"""The overview: what is failing, what waits and why, and what happens next."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from redrive.flows.waits import HELD_BACK
from redrive.formatting.times import utc_datetime
from redrive.server.contract.models import ResponseModel
from redrive.server.observed.dependencies import is_worse, named_states, recent_hold
from redrive.server.observed.series import Sparkline, minutes_until, sparkline
from redrive.server.observed.waits import group_in_words
from redrive.stores.activity import ActivityRow
from redrive.stores.counts import DeadGroup, RetryGroup
from redrive.stores.leases import WorkerRecord
from redrive.stores.queues import QueueRecord
from redrive.stores.worker_reports import DependencyOrder, DependencyState, ReportBody, ReportedPhase

MOST_COMING = 20
MOST_PROBLEMS = 50
RECENT_MINUTES = 5
SPARKLINE_MINUTES = 60


class FlowCounts(ResponseModel, frozen=True):
    ready: int
    waiting: int
    running: int
    paused: int
    parked: int
    failed: int
    """At most 10,000 are counted."""
    cancelled: int
    """At most 10,000 are counted."""


class WaitGroup(ResponseModel, frozen=True):
    """Steps that wait for the same."""

    waits_for: str
    """backoff, retry_after, circuit, recovery, budget, limit, snooze, redrive."""
    dependency: str
    """Empty where the wait is not for one."""
    count: int
    next_at: datetime
    """When the first of them may go on."""
    last_at: datetime
    """When the last of them may."""
    since: datetime | None
    """Since when the one that waits longest does."""
    reason: str


class DependencyProblem(ResponseModel, frozen=True):
    name: str
    retrying: int
    """Steps that failed, and are tried again."""
    waiting: int
    """Steps that its circuit, recovery, budget or limit holds back."""
    dead: int
    """Dead letters."""
    phase: ReportedPhase | None
    """The worst that a worker reports; null if none does."""
    probe_at: datetime | None
    """When the first worker tries it again, while its circuit is open."""
    held: bool
    """Whether somebody holds its circuit open: nothing tries it until it is closed."""


class DefinitionProblem(ResponseModel, frozen=True):
    definition: str
    retrying: int
    dead: int


class ReasonProblem(ResponseModel, frozen=True):
    waits_for: str
    error_type: str
    """Empty before the first failure."""
    count: int


class Problems(ResponseModel, frozen=True):
    """The largest first."""

    by_dependency: list[DependencyProblem]
    by_definition: list[DefinitionProblem]
    by_reason: list[ReasonProblem]


class Coming(ResponseModel, frozen=True):
    """Something that will happen without anybody doing anything."""

    at: datetime | None
    """null where it takes somebody after all."""
    count: int
    what: str


class QueueDepth(ResponseModel, frozen=True):
    name: str
    depth: int
    """Flows that have not finished."""
    running: int
    limit: int | None
    paused: bool


class WorkerCounts(ResponseModel, frozen=True):
    alive: int
    stale: int
    """With an expired lease: their flows go to others soon."""
    holding_loop: int
    """Workers whose event loop was blocked within the last minute."""


class Throughput(ResponseModel, frozen=True):
    """Per minute, over the last 5 minutes that are over."""

    succeeded: float
    """Attempts."""
    retried: float
    """Attempts that failed and are made again."""
    gave_up: float
    """Attempts that failed for good."""
    completed: float
    """Flows."""
    failed: float
    """Flows."""
    mean_seconds: float | None
    """Of the attempts that succeeded; null without any."""


class Overview(ResponseModel, frozen=True):
    at: datetime
    counts: FlowCounts
    retrying: int
    """Steps in the retry queue: they wait for another attempt, or are in it."""
    dead: int
    """Open dead letters."""
    waits: list[WaitGroup]
    problems: Problems
    next: list[Coming]
    """What happens next, the soonest first."""
    queues: list[QueueDepth]
    workers: WorkerCounts
    throughput: Throughput
    sparkline: Sparkline


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """All that the overview is made of."""

    queues: Sequence[QueueRecord]
    failed: int
    cancelled: int
    retries: Sequence[RetryGroup]
    dead: Sequence[DeadGroup]
    workers: Sequence[WorkerRecord]
    reports: Sequence[ReportBody]
    orders: Sequence[DependencyOrder]
    activity: Sequence[ActivityRow]
    """Of the last hour, whatever its names."""
    now: float


def overview(seen: Observed) -> Overview:
    states = named_states(seen.reports)
    waits = _waits(seen)
    return Overview(
        at=utc_datetime(seen.now),
        counts=FlowCounts(
            **{name: sum(getattr(one, name) for one in seen.queues) for name in ("ready", "waiting", "running")},
            **{name: sum(getattr(one, name) for one in seen.queues) for name in ("paused", "parked")},
            failed=seen.failed,
            cancelled=seen.cancelled,
        ),
        retrying=sum(one.count for one in seen.retries),
        dead=sum(one.count for one in seen.dead),
        waits=waits,
        problems=Problems(
            by_dependency=_by_dependency(seen, states),
            by_definition=_by_definition(seen),
            by_reason=_by_reason(seen),
        ),
        next=_coming(waits, states, seen),
        queues=[
            QueueDepth(
                name=one.name,
                depth=one.ready + one.waiting + one.running + one.paused + one.parked,
                running=one.running,
                limit=one.limit,
                paused=one.pause is not None,
            )
            for one in seen.queues
        ],
        workers=WorkerCounts(
            alive=sum(one.alive for one in seen.workers),
            stale=sum(not one.alive for one in seen.workers),
            holding_loop=sum(recent_hold(one, seen.now) for one in seen.reports),
        ),
        throughput=_throughput(seen),
        sparkline=sparkline(seen.activity, minutes_until(seen.now, SPARKLINE_MINUTES)),
    )


def _waits(seen: Observed) -> list[WaitGroup]:
    groups: dict[tuple[str, str], list[RetryGroup]] = {}
    for one in seen.retries:
        if one.waits_for:
            dependency = one.dependency if one.waits_for in HELD_BACK else ""
            groups.setdefault((one.waits_for, dependency), []).append(one)
    found = [
        WaitGroup(
            waits_for=waits_for,
            dependency=dependency,
            count=sum(one.count for one in rows),
            next_at=utc_datetime(min(one.next_at for one in rows)),
            last_at=utc_datetime(max(one.last_at for one in rows)),
            since=_earliest([one.since for one in rows]),
            reason=max((one.reason for one in rows), default="")
            or group_in_words(waits_for, dependency, sum(one.count for one in rows)),
        )
        for (waits_for, dependency), rows in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.count, one.waits_for, one.dependency))


def _earliest(times: Sequence[float | None]) -> datetime | None:
    known = [one for one in times if one is not None]
    return utc_datetime(min(known)) if known else None


def _by_dependency(seen: Observed, states: dict[str, list[DependencyState]]) -> list[DependencyProblem]:
    retrying: dict[str, int] = {}
    waiting: dict[str, int] = {}
    dead: dict[str, int] = {}
    for group in seen.retries:
        _add(retrying, group.dependency, group.count if group.error_type else 0)
        _add(waiting, group.dependency, group.count if group.waits_for in HELD_BACK else 0)
    for letters in seen.dead:
        _add(dead, letters.dependency, letters.count)
    troubled = {name for name, known in states.items() if any(one.phase != "closed" for one in known)}
    names = {*retrying, *waiting, *dead, *troubled} - {""}
    held = {one.name for one in seen.orders if one.order == "open"}
    found = []
    for name in names:
        known = states.get(name, [])
        probes = [one.probe_at for one in known if one.probe_at is not None]
        phase: ReportedPhase | None = None
        for one in known:
            phase = one.phase if phase is None or is_worse(one.phase, phase) else phase
        found.append(
            DependencyProblem(
                name=name,
                retrying=retrying.get(name, 0),
                waiting=waiting.get(name, 0),
                dead=dead.get(name, 0),
                phase=phase,
                probe_at=utc_datetime(min(probes)) if probes else None,
                held=name in held,
            )
        )
    found.sort(key=lambda one: (-(one.retrying + one.waiting + one.dead), one.name))
    return found[:MOST_PROBLEMS]


def _by_definition(seen: Observed) -> list[DefinitionProblem]:
    retrying: dict[str, int] = {}
    dead: dict[str, int] = {}
    for group in seen.retries:
        _add(retrying, group.definition, group.count)
    for letters in seen.dead:
        _add(dead, letters.definition, letters.count)
    names = sorted({*retrying, *dead}, key=lambda name: (-retrying.get(name, 0) - dead.get(name, 0), name))
    return [
        DefinitionProblem(definition=name, retrying=retrying.get(name, 0), dead=dead.get(name, 0))
        for name in names[:MOST_PROBLEMS]
    ]


def _by_reason(seen: Observed) -> list[ReasonProblem]:
    counts: dict[tuple[str, str], int] = {}
    for group in seen.retries:
        key = group.waits_for, group.error_type
        counts[key] = counts.get(key, 0) + group.count
    largest = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_PROBLEMS]
    return [ReasonProblem(waits_for=key[0], error_type=key[1], count=count) for key, count in largest]


def _add(counts: dict[str, int], name: str, count: int) -> None:
    if count:
        counts[name] = counts.get(name, 0) + count


def _coming(waits: Sequence[WaitGroup], states: dict[str, list[DependencyState]], seen: Observed) -> list[Coming]:
    by_hand = {one.name: one for one in seen.orders if one.order == "open"}
    now = utc_datetime(seen.now)
    found: list[Coming] = []
    for one in waits:
        due = one.next_at <= now
        what, at = group_in_words(one.waits_for, one.dependency, one.count, due=due), max(one.next_at, now)
        order = by_hand.get(one.dependency) if one.waits_for == "circuit" else None
        if order is not None:
            found.append(Coming(at=None, count=one.count, what=f"{what}; it was {order.in_words}"))
            continue
        if one.waits_for == "circuit":
            known = states.get(one.dependency, ())
            probes = [state.probe_at for state in known if state.probe_at is not None]
            at = max(utc_datetime(min(probes)), now) if probes else at
            what += "; the next attempt is a probe"
        found.append(Coming(at=at, count=one.count, what=what))
    found.sort(key=lambda one: (one.at is None, one.at or now, -one.count))
    return found[:MOST_COMING]


def _throughput(seen: Observed) -> Throughput:
    over = minutes_until(seen.now, RECENT_MINUTES + 1)[:-1]
    counts: dict[str, int] = {}
    seconds = 0.0
    for row in seen.activity:
        if round(row.at) in over:
            counts[row.outcome] = counts.get(row.outcome, 0) + row.count
            seconds += row.seconds if row.outcome == "succeeded" else 0.0
    succeeded = counts.get("succeeded", 0)
    rates = {
        name: round(counts.get(outcome, 0) / RECENT_MINUTES, 1)
        for name, outcome in (
            ("succeeded", "succeeded"),
            ("retried", "retried"),
            ("gave_up", "gave_up"),
            ("completed", "flow_completed"),
            ("failed", "flow_failed"),
        )
    }
    return Throughput(**rates, mean_seconds=round(seconds / succeeded, 6) if succeeded else None)
