"""The verbs that show how the work goes, all flows together: reports of workers, activity, counts, orders."""

from collections.abc import Sequence
from typing import Protocol

from redrive.stores.activity import ActivityQuery, ActivityRow
from redrive.stores.counts import DeadGroup, FlowCount, RetryGroup
from redrive.stores.leases import Lease
from redrive.stores.records import DeadQuery, FlowQuery, FlowStatus
from redrive.stores.worker_reports import DependencyOrder, WorkerReport


class Observations(Protocol):
    async def report(self, lease: Lease, report: WorkerReport | None, activity: Sequence[ActivityRow]) -> None:
        """Replace the worker's report, unless it is None, and add the activity; remove activity that is too old.

        Without the lease only the activity is kept: the report goes when the lease ends. A power failure may lose both.
        """
        ...

    async def list_reports(self) -> list[WorkerReport]:
        """Return the latest report of each worker that has made one, by epoch."""
        ...

    async def read_activity(self, query: ActivityQuery) -> list[ActivityRow]:
        """Return the sums, earliest minute first."""
        ...

    async def count_flows(self) -> list[FlowCount]:
        """Count the flows that have not finished."""
        ...

    async def count_matching_flows(self, query: FlowQuery) -> int:
        """Count the flows that the query matches, up to its limit."""
        ...

    async def count_children(self, parents: Sequence[str], limit: int) -> dict[str, dict[FlowStatus, int]]:
        """Count the children of each of these flows by status, up to `limit` each; those without any are left out."""
        ...

    async def group_retries(self) -> list[RetryGroup]:
        """Count the work items of the retry queue, the largest group first."""
        ...

    async def group_dead_letters(self, query: DeadQuery) -> list[DeadGroup]:
        """Count the dead letters that the query matches, the largest group first. No page: all of them."""
        ...

    async def set_dependency_order(self, order: DependencyOrder) -> None:
        """Keep the order, in place of an earlier one about the same dependency."""
        ...

    async def list_dependency_orders(self) -> list[DependencyOrder]:
        """Return all orders, sorted by name."""
        ...
