"""What the workers know about dependencies, and what waits for each."""

from collections.abc import Sequence
from datetime import datetime

from redrive.flows.waits import HELD_BACK
from redrive.formatting.times import utc_datetime
from redrive.server.contract.models import ResponseModel
from redrive.server.observed.series import Sparkline, minutes_until, sparkline
from redrive.stores.activity import ActivityRow
from redrive.stores.counts import DeadGroup, RetryGroup
from redrive.stores.worker_reports import DependencyOrder, DependencyState, Order, ReportBody, ReportedPhase

_FROM_BEST: tuple[ReportedPhase, ...] = ("closed", "recovering", "half_open", "open")
MOST_DEPENDENCIES = 500
RECENT = 60.0
"""Seconds for which a blocked event loop is still worth telling."""


class DependencyOnWorker(ResponseModel, frozen=True):
    """What one worker knows about it."""

    worker: str
    phase: ReportedPhase
    since: datetime | None
    """When the circuit opened; null while it is closed."""
    failures: int
    """Consecutive failures while closed."""
    probe_at: datetime | None
    rate: float | None
    """Calls per second that it gets while it recovers."""
    budget_left: int | None
    """Retries that the budget allows now."""
    in_line: int
    """Attempts that wait in line for it."""


class OrderResponse(ResponseModel, frozen=True):
    order: Order
    """open: held open until it is closed by hand; close: closed once, and automatic from then on."""
    by: str
    why: str
    at: datetime


class DependencyResponse(ResponseModel, frozen=True):
    name: str
    phase: ReportedPhase | None
    """The worst that a worker reports; null if none knows it."""
    workers: list[DependencyOnWorker]
    waiting: int
    """Steps that its circuit, recovery, budget or limit holds back."""
    retrying: int
    """Steps that failed, and are tried again."""
    dead: int
    """Dead letters."""
    order: OrderResponse | None
    """What someone ordered last about its circuit."""
    sparkline: Sparkline


def named_states(reports: Sequence[ReportBody]) -> dict[str, list[DependencyState]]:
    found: dict[str, list[DependencyState]] = {}
    for report in reports:
        for state in report.dependencies:
            found.setdefault(state.name, []).append(state)
    return found


def is_worse(one: ReportedPhase, other: ReportedPhase) -> bool:
    return _FROM_BEST.index(one) > _FROM_BEST.index(other)


def recent_hold(report: ReportBody, now: float) -> bool:
    """Whether the worker's event loop was blocked within the last minute."""
    return report.held_loop is not None and now - report.held_loop.at < RECENT


def dependencies(
    reports: Sequence[tuple[str, ReportBody]],
    retries: Sequence[RetryGroup],
    dead: Sequence[DeadGroup],
    orders: Sequence[DependencyOrder],
    activity: Sequence[ActivityRow],
    now: float,
) -> list[DependencyResponse]:
    """Return all that are known, those in trouble first. `reports`: each with its worker's name."""
    minutes = minutes_until(now, 60)
    workers: dict[str, list[DependencyOnWorker]] = {}
    for worker, report in reports:
        for state in report.dependencies:
            workers.setdefault(state.name, []).append(_on_worker(worker, state))
    rows: dict[str, list[ActivityRow]] = {}
    for row in activity:
        rows.setdefault(row.dependency, []).append(row)
    ordered = {one.name: one for one in orders}
    names = {*workers, *rows, *ordered, *(one.dependency for one in retries), *(one.dependency for one in dead)} - {""}
    found = [
        DependencyResponse(
            name=name,
            phase=_worst([one.phase for one in workers.get(name, ())]),
            workers=workers.get(name, []),
            waiting=sum(one.count for one in retries if one.dependency == name and one.waits_for in HELD_BACK),
            retrying=sum(one.count for one in retries if one.dependency == name and one.error_type),
            dead=sum(one.count for one in dead if one.dependency == name),
            order=order_response(ordered.get(name)),
            sparkline=sparkline(rows.get(name, ()), minutes),
        )
        for name in names
    ]
    found.sort(key=lambda one: (-_rank(one.phase), -(one.waiting + one.retrying + one.dead), one.name))
    return found[:MOST_DEPENDENCIES]


def order_response(order: DependencyOrder | None) -> OrderResponse | None:
    if order is None:
        return None
    return OrderResponse(order=order.order, by=order.by, why=order.why, at=utc_datetime(order.at))


def _on_worker(worker: str, state: DependencyState) -> DependencyOnWorker:
    return DependencyOnWorker(
        worker=worker,
        phase=state.phase,
        since=None if state.since is None else utc_datetime(state.since),
        failures=state.failures,
        probe_at=None if state.probe_at is None else utc_datetime(state.probe_at),
        rate=state.rate,
        budget_left=state.budget_left,
        in_line=state.in_line,
    )


def _worst(phases: Sequence[ReportedPhase]) -> ReportedPhase | None:
    return max(phases, key=_rank, default=None)


def _rank(phase: ReportedPhase | None) -> int:
    return -1 if phase is None else _FROM_BEST.index(phase)
