"""The verbs of the memory store that show how the work goes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from redrive.stores.activity import LONGEST_ACTIVITY, ActivityQuery, ActivityRow
from redrive.stores.counts import MOST_GROUPS, DeadGroup, FlowCount, RetryGroup
from redrive.stores.leases import Lease
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.selection import matching_flows, matching_letters
from redrive.stores.records import FINISHED, DeadLetter, DeadQuery, FlowQuery, FlowStatus, RetryRow
from redrive.stores.worker_reports import DependencyOrder, WorkerReport


class MemoryObservations:
    _data: MemoryData

    async def report(self, lease: Lease, report: WorkerReport | None, activity: Sequence[ActivityRow]) -> None:
        data = self._data
        if report is not None and data.holder(lease) is not None:
            data.reports[lease.epoch] = report
        for row in activity:
            key: tuple[float, str, str, str, str] = (row.at, row.definition, row.step, row.dependency, row.outcome)
            data.activity[key] = _sum(row, data.activity.get(key))
        if activity:
            oldest = max(row.at for row in activity) - LONGEST_ACTIVITY
            for key in [key for key in data.activity if key[0] < oldest]:
                del data.activity[key]

    async def list_reports(self) -> list[WorkerReport]:
        return [report for _, report in sorted(self._data.reports.items())]

    async def read_activity(self, query: ActivityQuery) -> list[ActivityRow]:
        sums: dict[Any, ActivityRow] = {}
        for row in self._data.activity.values():
            if (
                row.at >= query.since
                and query.definition in (None, row.definition)
                and query.dependency in (None, row.dependency)
            ):
                kept = {name: getattr(row, name) for name in query.by}
                key = (row.at, row.outcome, *kept.values())
                summed = ActivityRow(at=row.at, outcome=row.outcome, count=row.count, seconds=row.seconds, **kept)
                sums[key] = _sum(summed, sums.get(key))
        return sorted(sums.values(), key=lambda row: row.at)

    async def count_flows(self) -> list[FlowCount]:
        counts: Counter[tuple[str, str, FlowStatus]] = Counter(
            (flow.definition, flow.queue, flow.status)
            for flow in self._data.flows.values()
            if flow.status not in FINISHED
        )
        return [
            FlowCount(definition=definition, queue=queue, status=status, count=count)
            for (definition, queue, status), count in counts.items()
        ]

    async def count_matching_flows(self, query: FlowQuery) -> int:
        return sum(1 for _ in islice(matching_flows(self._data, query), query.limit))

    async def count_children(self, parents: Sequence[str], limit: int) -> dict[str, dict[FlowStatus, int]]:
        counts: dict[str, Counter[FlowStatus]] = {parent: Counter() for parent in parents}
        for flow in self._data.flows.values():
            if flow.parent in counts and counts[flow.parent].total() < limit:
                counts[flow.parent][flow.status] += 1
        return {parent: dict(found) for parent, found in counts.items() if found}

    async def group_retries(self) -> list[RetryGroup]:
        groups: dict[Any, list[RetryRow]] = {}
        for row in self._data.retries.values():
            groups.setdefault((row.definition, row.dependency, row.waits_for, row.error_type), []).append(row)
        return [
            RetryGroup(
                definition=rows[0].definition,
                dependency=rows[0].dependency,
                waits_for=rows[0].waits_for,
                error_type=rows[0].error_type,
                count=len(rows),
                next_at=min(row.scheduled_at for row in rows),
                last_at=max(row.scheduled_at for row in rows),
                since=min((row.since for row in rows if row.since is not None), default=None),
                reason=max(row.reason for row in rows),
            )
            for rows in _largest_first(groups.values())
        ]

    async def group_dead_letters(self, query: DeadQuery) -> list[DeadGroup]:
        groups: dict[Any, list[DeadLetter]] = {}
        for one in matching_letters(self._data, msgspec.structs.replace(query, after=None)):
            key = (one.definition, one.step, one.dependency, one.error_type, one.kind)
            groups.setdefault(key, []).append(one)
        return [
            DeadGroup(
                definition=letters[0].definition,
                step=letters[0].step,
                dependency=letters[0].dependency,
                error_type=letters[0].error_type,
                kind=letters[0].kind,
                count=len(letters),
                first_at=letters[0].at,
                last_at=letters[-1].at,
                flow_id=letters[-1].flow_id,
                message=letters[-1].message,
            )
            for letters in _largest_first(groups.values())
        ]

    async def set_dependency_order(self, order: DependencyOrder) -> None:
        self._data.orders[order.name] = order

    async def list_dependency_orders(self) -> list[DependencyOrder]:
        return [order for _, order in sorted(self._data.orders.items())]


def _sum(row: ActivityRow, known: ActivityRow | None) -> ActivityRow:
    if known is None:
        return row
    return msgspec.structs.replace(row, count=row.count + known.count, seconds=row.seconds + known.seconds)


def _largest_first(groups: Iterable[list[Any]]) -> list[list[Any]]:
    return sorted(groups, key=len, reverse=True)[:MOST_GROUPS]
