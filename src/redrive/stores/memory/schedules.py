"""The verbs of the memory store about schedules."""

from collections.abc import Sequence

from msgspec.structs import replace

from redrive.stores.memory.data import MemoryData
from redrive.stores.records import FINISHED, FlowRecord, NewFlow
from redrive.stores.schedules import MOST_DUE, MOST_WAITING, DueSchedules, ScheduleRow


class MemorySchedules:
    _data: MemoryData

    async def due_schedules(self, now: float, limit: int = MOST_DUE) -> DueSchedules:
        rows = sorted(self._data.schedules.values(), key=lambda row: (row.next_at or 0.0, row.name))
        due = [row for row in rows if self._is_due(row, now)]
        waiting = [row.waits_for for row in rows if row.waits_for is not None and row not in due]
        later = [row.next_at for row in rows if row.next_at is not None and row.next_at > now]
        return DueSchedules(due[:limit], min(later, default=None), frozenset(waiting[:MOST_WAITING]))

    def _is_due(self, row: ScheduleRow, now: float) -> bool:
        if row.next_at is not None and row.next_at <= now:
            return True
        flow = self._data.flows.get(row.waits_for or "")
        return row.waits_for is not None and (flow is None or flow.status in FINISHED)

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        return self._data.schedules.get(name)

    async def list_schedules(self, after: str, limit: int) -> list[ScheduleRow]:
        return [row for name, row in sorted(self._data.schedules.items()) if name > after][:limit]

    async def write_schedule(
        self,
        row: ScheduleRow,
        flows: Sequence[NewFlow] = (),
        messages: Sequence[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> list[FlowRecord | None] | None:
        known = self._data.schedules.get(row.name)
        if row.version != (0 if known is None else known.version):
            return None
        answers = self._data.add_flows(flows)
        self._data.schedules[row.name] = replace(row, version=row.version + 1)
        for flow_id, body in messages:
            self._data.send(flow_id, body, now, reopens=False)
        if messages:
            self._data.listeners.notify()
        return answers

    async def drop_schedule(self, name: str) -> bool:
        return self._data.schedules.pop(name, None) is not None
