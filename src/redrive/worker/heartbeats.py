"""Keep the details of heartbeats for the next attempt, written at most once a second per attempt."""

import asyncio
from collections.abc import Callable

from redrive.stores.records import HeartbeatRow
from redrive.worker.flow.flow_run import FlowRun

WRITTEN_EVERY = 1.0


class Heartbeats:
    def __init__(self, find: Callable[[str], FlowRun | None]) -> None:
        """find: the flow in memory with this id."""
        self._find = find
        self._held: dict[str, dict[tuple[int, str], str]] = {}
        """Of flows that are being rebuilt, the last details by item and delivery token."""

    def beat(self, flow_id: str, item: int, delivery: str, details: str) -> None:
        """Keep the details; the first ones of an attempt are written at once."""
        held = self._held.get(flow_id)
        if held is not None:
            held[item, delivery] = details
            return
        run = self._find(flow_id)
        if run is None or not _is_running(run, item, delivery):
            # A heartbeat from an abandoned thread, not from the current attempt.
            return
        beats = run.starter.heartbeats
        is_first = item not in beats
        beats[item] = details
        if is_first:
            _write(run, item, delivery, None)

    def hold(self, run: FlowRun) -> None:
        """Collect heartbeats until `release`, starting with those that may not be durable yet."""
        beats = run.starter.heartbeats
        beating = [item for item in run.log.history.items.values() if item.number in beats]
        self._held[run.id] = {(item.number, item.delivery or ""): beats[item.number] for item in beating}

    def release(self, flow_id: str) -> None:
        for (item, delivery), details in self._held.pop(flow_id, {}).items():
            self.beat(flow_id, item, delivery, details)


def _write(run: FlowRun, item: int, delivery: str, written: str | None) -> None:
    details = run.starter.heartbeats.get(item)
    if details is None or not _is_running(run, item, delivery):
        return
    if details != written:
        # In the flow's time, like the start of the attempt, whatever the clocks of its owners say.
        run.log.journal.put_heartbeat(HeartbeatRow(run.id, item, run.log.now(), details))
    asyncio.get_running_loop().call_later(WRITTEN_EVERY, _write, run, item, delivery, details)


def _is_running(run: FlowRun, number: int, delivery: str) -> bool:
    item = run.log.history.items.get(number)
    return not run.log.released and item is not None and item.state == "running" and item.delivery == delivery
