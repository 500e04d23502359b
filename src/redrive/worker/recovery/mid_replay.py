"""Flows that are replayed in pieces: between two of them others have their turn, and nobody may speak to the flow."""

import asyncio
from collections.abc import Iterator

from redrive.worker.flow_run import FlowRun


class HalfReplayed:
    def __init__(self, runs: dict[str, FlowRun]) -> None:
        self._runs = runs
        self._away: dict[str, FlowRun] = {}

    def get(self, flow_id: str) -> FlowRun | None:
        """For who must stop it."""
        return self._away.get(flow_id)

    async def bring_up(self, run: FlowRun, pieces: Iterator[None]) -> None:
        """Until it is replayed, or was stopped meanwhile: nothing more may be written of it then."""
        for _ in pieces:
            self._away[run.id] = self._runs.pop(run.id)
            try:
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
            finally:
                del self._away[run.id]
                if not run.released:
                    self._runs[run.id] = run
            if run.released:
                return
