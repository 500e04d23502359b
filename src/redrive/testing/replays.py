"""Recorded flows as tests: the code at hand must still go on with them."""

from pathlib import Path

from redrive.client.recorded_flows import read_recorded
from redrive.worker.recovery.check_replay import check_replay

MOST_TOLD = 20


def assert_replays(path: str | Path) -> int:
    """Replay the flows of a file that `redrive export` wrote; return how many there are.

    AssertionError names those that would break, with the line of the log and of the code, and what to do. The modules
    with their workflows and actions must have been imported. Nothing else of the flows runs: no action, no timer.
    """
    count = broken = 0
    told: list[str] = []
    for recorded in read_recorded(path):
        count += 1
        problem = check_replay(recorded.flow, recorded.log)
        if problem is not None:
            broken += 1
            if len(told) < MOST_TOLD:
                told.append(f"- {problem}")
    if not count:
        raise AssertionError(f"{path} has no flows; write the file with `redrive export`")
    if broken:
        more = [f"- and {broken - len(told)} more"] if broken > len(told) else []
        raise AssertionError("\n".join([f"{broken} of {count} flows would break", *told, *more]))
    return count
