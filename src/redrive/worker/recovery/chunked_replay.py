"""Replay flows in pieces, so that a long log does not hold the event loop."""

import asyncio
from collections.abc import Iterator

from redrive.worker.flow.flow_run import FlowRun
from redrive.worker.flow_table import FlowTable


class ChunkedReplay:
    """Hides a flow between two chunks of its replay: nothing may reach it until it has caught up with its log."""

    def __init__(self, flows: FlowTable) -> None:
        self._flows = flows
        self._hidden: dict[str, FlowRun] = {}

    def get(self, flow_id: str) -> FlowRun | None:
        """Return a flow that is mid-replay, so it can be stopped."""
        return self._hidden.get(flow_id)

    async def finish(self, run: FlowRun, pieces: Iterator[None]) -> None:
        """Replay until the end, or until the flow is released meanwhile."""
        for _ in pieces:
            self._flows.take_out(run)
            self._hidden[run.id] = run
            try:
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            finally:
                del self._hidden[run.id]
                if not run.log.released:
                    self._flows.add(run)
            if run.log.released:
                run.driver.discard()
                run.alarm.cancel()
                return
