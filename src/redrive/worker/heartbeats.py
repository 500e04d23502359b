"""What running attempts leave for the ones that may follow them, written now and then."""

import asyncio
from collections.abc import Mapping

from redrive.stores.records import HeartbeatRow
from redrive.worker.attempt_starts import AttemptStarts

WRITTEN_EVERY = 1.0


def beat(runs: Mapping[str, AttemptStarts], flow_id: str, item: int, delivery: str, details: str) -> None:
    """The attempt goes on; the details are written at once if they are its first."""
    run = runs.get(flow_id)
    if run is None or not _is_under_way(run, item, delivery):
        # What was left behind, a thread say, does not speak for the attempt that came after it.
        return
    silent = item not in run.heartbeats
    run.heartbeats[item] = details
    if silent:
        _write(run, item, delivery, None)


def _write(run: AttemptStarts, item: int, delivery: str, written: str | None) -> None:
    details = run.heartbeats.get(item)
    if details is None or not _is_under_way(run, item, delivery):
        return
    if details != written:
        # By the flow's time, as the attempt's own beginning, whatever the clocks of its owners say.
        run.desk.journal.put_heartbeat(HeartbeatRow(run.id, item, run.time(), details))
    asyncio.get_running_loop().call_later(WRITTEN_EVERY, _write, run, item, delivery, details)


def _is_under_way(run: AttemptStarts, number: int, delivery: str) -> bool:
    item = run.history.items.get(number)
    return not run.released and item is not None and item.state == "running" and item.delivery == delivery
