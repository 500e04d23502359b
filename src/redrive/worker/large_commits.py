"""Commits that take long, apart from the others: each is one flow's, and waits until it is its turn."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.records import Batch
from redrive.worker.commit_parts import flows_in, part_of

LARGE_EVENTS = LARGE_JSON
"""Bytes of events that one flow logs at one time, from which they are committed apart."""

Callback = tuple[str | None, Callable[..., None], tuple[Any, ...]]
"""The flow whose events it waits for (None: those of all flows), the function, and its arguments."""


class LargeCommit(NamedTuple):
    flow_id: str
    batch: Batch
    """Has no number until it is committed."""
    callbacks: list[Callback]


class LargeCommits:
    """What waits, first in, first out. Whatever a flow commits after a large commit of its own waits behind that."""

    def __init__(self) -> None:
        self._waiting: deque[LargeCommit] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def set_aside(self, batch: Batch, callbacks: Iterable[Callback], large: Collection[str]) -> list[Callback]:
        """Move what belongs to these flows, or to flows that wait here already, from the batch to the end of the line.

        Returns the callbacks that the rest of the batch has.
        """
        apart = {*large, *(one.flow_id for one in self._waiting)}
        mine: dict[str, list[Callback]] = {flow_id: [] for flow_id in flows_in(batch) if flow_id in apart}
        last_of = {one.flow_id: one.callbacks for one in self._waiting} | mine
        for flow_id, of_flow in mine.items():
            self._waiting.append(LargeCommit(flow_id, part_of(batch, flow_id, 0), of_flow))
        batch.new_flows = [flow for flow in batch.new_flows if flow.id not in apart]
        batch.drop_flows(apart)
        rest: list[Callback] = []
        for callback in callbacks:
            of = callback[0]
            if of is not None:
                last_of.get(of, rest).append(callback)
            else:
                (self._waiting[-1].callbacks if self._waiting else rest).append(callback)
        return rest

    def next(self) -> LargeCommit:
        return self._waiting.popleft()

    def forget(self, flow_id: str) -> None:
        """Drop the flow's rows; its callbacks are called in their turn all the same."""
        for one in self._waiting:
            if one.flow_id == flow_id:
                one.batch.new_flows = []
                one.batch.drop_flows((flow_id,))
