"""Tell from a flow's log what became of its compensation."""

from collections.abc import Sequence

from redrive.flows.events import AttemptFailed, FlowFailed, ItemGaveUp, Line, Redriven, StepSettled
from redrive.flows.history import FlowHistory, fold
from redrive.flows.item import Item
from redrive.flows.rewind import Rewind, drop_rewound


def uncompensated_steps(lines: list[Line]) -> list[str]:
    """List the steps whose compensation failed."""
    settled = [line.event for line in drop_rewound(lines) if isinstance(line.event, StepSettled)]
    # A compensation that was redriven settles its step again.
    states = {event.step: event.state for event in settled}
    return [step for step, state in states.items() if state == "uncompensated"]


def uncompensated_items(lines: list[Line]) -> list[Item]:
    """List the compensations that failed, and can be redriven, completed or resolved."""
    return [item for item in fold(lines).items.values() if item.compensates and item.state == "failed"]


def describe_compensation(uncompensated: Sequence[str]) -> str:
    """Say that a flow's completed steps were compensated, and name those whose compensation failed."""
    if not uncompensated:
        return "its completed steps were compensated"
    return f"its completed steps were compensated, except {', '.join(uncompensated)}, whose compensation failed"


def failure_handling_steps(history: FlowHistory, lines: list[Line]) -> list[str]:
    """List the steps that ran only because of the failure that ended the flow, such as compensation in its own code.

    A redrive rewinds the log to before them, but does not take back what they did.
    """
    if not isinstance(history.ending, FlowFailed):
        return []
    item = history.ending.item
    failed = [
        line.seq for line in lines if isinstance(line.event, AttemptFailed | ItemGaveUp) and line.event.item == item
    ]
    if not failed:
        return []
    rewind = Rewind(lines)
    before = set(rewind.items)
    rewind.read(Line(lines[-1].seq + 1, lines[-1].at, Redriven(item=item, since=failed[-1])))
    rewound = (history.items[number] for number in sorted(rewind.items - before))
    return list(dict.fromkeys(one.step for one in rewound if one.state == "completed"))
