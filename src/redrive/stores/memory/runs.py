"""The verbs of the memory store about runs of flows that continued as new."""

from redrive.stores.memory.data import MemoryData
from redrive.stores.records import FINISHED
from redrive.stores.runs import LONG_RUN, MOST_ROWS_PRUNED, EndedRun, LongRun


class MemoryRuns:
    _data: MemoryData

    async def find_run(self, flow_id: str, back: int) -> EndedRun | None:
        runs = self._data.ended_runs.get(flow_id, [])
        return runs[-back] if 0 < back <= len(runs) else None

    async def prune_runs(self, ended_before: float, limit: int) -> int:
        data, pruned = self._data, 0
        old = [flow_id for flow_id, runs in data.ended_runs.items() if runs[0].ended_at < ended_before]
        for flow_id in old[:limit]:
            runs, log = data.ended_runs[flow_id], data.events.get(flow_id, {})
            rows = sorted(seq for seq in log if seq <= runs[0].run_to)[:MOST_ROWS_PRUNED]
            for seq in rows:
                del log[seq]
            if len(rows) < MOST_ROWS_PRUNED:
                del runs[0]
                if not runs:
                    del data.ended_runs[flow_id]
            pruned += 1
        return pruned

    async def list_long_runs(self, limit: int) -> list[LongRun]:
        data = self._data
        found = [
            LongRun(flow_id, data.flows[flow_id].definition, max(log) - data.flows[flow_id].run_from)
            for flow_id, log in sorted(data.events.items())
            if log and data.flows[flow_id].status not in FINISHED
        ]
        return [one for one in found if one.events > LONG_RUN][:limit]
