"""What became of the work of a flow that was undone, in words."""

from collections.abc import Sequence

from redrive.flows.events import StepSettled
from redrive.flows.history import Line
from redrive.flows.undoing import without_undone


def not_undone(lines: list[Line]) -> list[str]:
    """The steps that were to be undone, and could not be."""
    settled = (line.event for line in without_undone(lines) if isinstance(line.event, StepSettled))
    return list(dict.fromkeys(event.step for event in settled if event.state == "uncompensated"))


def undone_in_words(left: Sequence[str]) -> str:
    """`left`: the steps that could not be undone."""
    if not left:
        return "what had succeeded was undone"
    return f"what had succeeded was to be undone, and {', '.join(left)} could not be"
