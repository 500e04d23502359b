"""Count the definitions that this process has registered."""

from redrive.flows.registry import registered_counts
from redrive.formatting.text import format_count

_KINDS = ("workflow", "action", "graph", "script")


def count_definitions() -> str:
    """Format the counts by kind, without those that are zero: 2 workflows, 4 actions, 1 graph."""
    counts = [format_count(number, kind) for number, kind in zip(registered_counts(), _KINDS, strict=True) if number]
    return ", ".join(counts) or "no definitions"
