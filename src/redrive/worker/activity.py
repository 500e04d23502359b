"""Count what attempts and flows come to, in memory, until it is reported."""

from redrive.failures.redaction import redact
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.stores.activity import MINUTE, OTHER, ActivityOutcome, ActivityRow

MOST_NAMES = 1000
"""In one report: what has other names is counted together."""


def outcome_of(ending: FlowCompleted | FlowFailed | FlowCancelled) -> ActivityOutcome:
    """How activity counts the end of a flow."""
    if isinstance(ending, FlowFailed):
        return "flow_failed"
    return "flow_completed" if isinstance(ending, FlowCompleted) else "flow_cancelled"


class ActivityCounts:
    """Counts by minute and name. Nothing is written here: each attempt pays for one look into a dict."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[float, str, str, str, ActivityOutcome], list[float]] = {}
        """(minute, definition, step, dependency, outcome) -> how often, and how many seconds it took."""

    def add(
        self,
        at: float,
        definition: str,
        outcome: ActivityOutcome,
        step: str = "",
        dependency: str = "",
        seconds: float = 0.0,
    ) -> None:
        key = (at // MINUTE, definition, step, dependency, outcome)
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) >= MOST_NAMES:
                key = (at // MINUTE, OTHER, OTHER if step else "", OTHER if dependency else "", outcome)
            known = self._counts.setdefault(key, [0, 0.0])
        known[0] += 1
        known[1] += seconds

    def take(self) -> list[ActivityRow]:
        """Return what was counted since the last time."""
        counts, self._counts = self._counts, {}
        return [
            ActivityRow(
                at=minute * MINUTE,
                definition=definition,
                step=step,
                # It may be a URL with a password.
                dependency=redact(dependency),
                outcome=outcome,
                count=int(count),
                seconds=seconds,
            )
            for (minute, definition, step, dependency, outcome), (count, seconds) in counts.items()
        ]
