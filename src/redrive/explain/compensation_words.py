"""What became of the work of a flow that was undone, in words."""

from collections.abc import Sequence

from redrive.flows.events import AttemptFailed, FlowFailed, ItemGaveUp, Line, Redriven, StepSettled
from redrive.flows.history import fold
from redrive.flows.rewind import Rewind, drop_rewound


def not_undone(lines: list[Line]) -> list[str]:
    """The steps that were to be undone, and could not be."""
    settled = (line.event for line in drop_rewound(lines) if isinstance(line.event, StepSettled))
    return list(dict.fromkeys(event.step for event in settled if event.state == "uncompensated"))


def undone_in_words(left: Sequence[str]) -> str:
    """`left`: the steps that could not be undone."""
    if not left:
        return "what had succeeded was undone"
    return f"what had succeeded was to be undone, and {', '.join(left)} could not be"


def done_for_failure(lines: list[Line]) -> list[str]:
    """The steps that completed only because of the failure that ended the flow, such as a workflow's own undoing.

    A redrive goes on as if they had not been asked for.
    """
    history = fold(lines)
    item = history.ending.item if isinstance(history.ending, FlowFailed) else None
    failed = [
        line.seq for line in lines if isinstance(line.event, AttemptFailed | ItemGaveUp) and line.event.item == item
    ]
    if not failed:
        return []
    undoing = Rewind(lines)
    before = set(undoing.items)
    undoing.read(Line(lines[-1].seq + 1, lines[-1].at, Redriven(item=item, since=failed[-1])))
    undone = (history.items[number] for number in sorted(undoing.items - before))
    return list(dict.fromkeys(one.step for one in undone if one.state == "completed"))
