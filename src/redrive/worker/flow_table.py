"""The flows that a worker has in memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.flow.flow_run import FlowRun


class FlowTable:
    """Flows by id. Idle ones, which wait briefly, are released when room is needed: the least recently used first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.by_id: dict[str, FlowRun] = {}
        """For look-ups; only this class changes it."""
        self._idle: OrderedDict[str, FlowRun] = OrderedDict()
        self._evicted: set[str] = set()
        """Idle flows that were released to make room, until that is durable."""
        self.closed = False
        """True once the worker is stopping: no flow stays in memory only to wait."""
        self.on_removed: Callable[[], None] = lambda: None
        """Called when a flow has left: there may be room for another one."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[FlowRun]:
        return iter(list(self.by_id.values()))

    @property
    def busy(self) -> int:
        """How many flows are not idle."""
        return len(self.by_id) - len(self._idle)

    def is_idle(self, flow_id: str) -> bool:
        return flow_id in self._idle

    def add(self, run: FlowRun) -> None:
        before = self.by_id.get(run.id)
        if before is not None:
            # Released, and claimed again before the release was acted on.
            before.driver.discard()
            before.alarm.cancel()
        self.by_id[run.id] = run
        self._evicted.discard(run.id)

    def remove(self, run: FlowRun) -> None:
        """Forget a flow that is released or replaced, unless a newer run of the same flow is in its place."""
        if self.by_id.get(run.id) is run:
            del self.by_id[run.id]
            self._idle.pop(run.id, None)
            self._evicted.discard(run.id)
        run.driver.discard()
        run.alarm.cancel()
        self.on_removed()

    def remove_released(self, log: FlowLog) -> None:
        """Forget the flow whose release is durable, unless it was claimed again, or is not here, by now."""
        run = self.by_id.get(log.flow_id)
        if run is not None and run.log is log:
            self.remove(run)
        else:
            self.on_removed()

    def take_out(self, run: FlowRun) -> None:
        """Hide a flow from messages, outcomes and alarms until it is added again."""
        self.by_id.pop(run.id, None)
        self._idle.pop(run.id, None)

    def mark_busy(self, flow_id: str) -> None:
        self._idle.pop(flow_id, None)

    def keep(self, run: FlowRun) -> bool:
        """Mark a flow as idle, and say whether there is room for it."""
        if self.closed:
            return False
        self._idle[run.id] = run
        self._idle.move_to_end(run.id)
        while len(self.by_id) - len(self._evicted) > self._most and self._idle:
            _, oldest = self._idle.popitem(last=False)
            if oldest is run:
                return False
            if not oldest.starter.active and not oldest.log.released:
                self._evicted.add(oldest.id)
                oldest.log.release("waiting", oldest.next_wake())
        return True

    def clear(self) -> None:
        for run in self.by_id.values():
            run.log.released = True
            run.driver.discard()
        self.by_id.clear()
        self._idle.clear()
