"""Rewind a log: find the lines that a redrive takes back, which are a failure and all that followed from it alone."""

from collections import defaultdict
from collections.abc import Generator, Iterable

from redrive.flows.child_events import ChildCancelled, ChildCompleted, ChildFailed, ChildStarted
from redrive.flows.chunks import in_chunks, run_to_completion
from redrive.flows.events import (
    COMMANDS,
    ENDINGS,
    CancelRequested,
    ItemAdded,
    Line,
    Redriven,
    TimerFired,
    TimerSet,
    TurnContinued,
    is_activation,
)


class Rewind:
    """Reads a log line by line and keeps what followed from what, so that a redrive costs only the lines it rewinds."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.lines: set[int] = set()
        """The numbers of the rewound lines."""
        self.items: set[int] = set()
        """The items that were scheduled only because of rewound lines."""
        self.children: dict[int, str] = {}
        """The children that were started only because of rewound lines: their numbers and ids."""
        self._activations: list[int] = []
        self._commands_of: defaultdict[int, list[Line]] = defaultdict(list)
        """The commands that followed each activation."""
        self._lines_of_item: defaultdict[int, list[Line]] = defaultdict(list)
        self._ends_of_child: defaultdict[int, list[Line]] = defaultdict(list)
        self._firings_of: defaultdict[int, list[Line]] = defaultdict(list)
        self._ends: list[Line] = []
        """The flow's ends, and the cancellations that led to them."""
        for line in lines:
            self.read(line)

    def read(self, line: Line) -> None:
        event = line.event
        if isinstance(event, Redriven) and not event.compensation:
            self._rewind(event)
        if isinstance(event, (*ENDINGS, CancelRequested)):
            self._ends.append(line)
        elif isinstance(event, TimerFired):
            self._firings_of[event.timer].append(line)
        elif isinstance(event, ChildCompleted | ChildFailed | ChildCancelled):
            self._ends_of_child[event.child].append(line)
        elif (item := getattr(event, "item", None)) is not None:
            self._lines_of_item[item].append(line)
        if is_activation(event):
            self._activations.append(line.seq)
            if isinstance(event, TurnContinued):
                self._commands_of[event.since].append(line)
        elif isinstance(event, COMMANDS):
            # After a redrive, commands follow from the last activation that was not rewound.
            while self._activations and self._activations[-1] in self.lines:
                self._activations.pop()
            if self._activations:
                self._commands_of[self._activations[-1]].append(line)

    def _rewind(self, redriven: Redriven) -> None:
        ahead = []
        while self._ends and self._ends[-1].seq >= redriven.since:
            ahead.append(self._ends.pop())
        if redriven.item is not None:
            ahead += [line for line in self._lines_of_item[redriven.item] if line.seq == redriven.since]
        if redriven.child is not None:
            ahead += [line for line in self._ends_of_child[redriven.child] if line.seq == redriven.since]
        while ahead:
            seq, _, event = ahead.pop()
            if seq in self.lines:
                continue
            self.lines.add(seq)
            if isinstance(event, ItemAdded):
                self.items.add(event.item)
                ahead += self._lines_of_item.pop(event.item)
            elif isinstance(event, ChildStarted):
                self.children[event.child] = event.flow
                ahead += self._ends_of_child.pop(event.child, ())
            elif isinstance(event, TimerSet):
                ahead += self._firings_of.pop(event.timer, ())
            elif is_activation(event):
                ahead += self._commands_of.pop(seq, ())


def rewind_in_chunks(lines: list[Line]) -> Generator[None, None, Rewind]:
    """Read a whole log."""
    rewind = Rewind()
    for index, chunk in enumerate(in_chunks(lines)):
        if index:
            yield
        for line in chunk:
            rewind.read(line)
    return rewind


def drop_rewound_in_chunks(lines: list[Line]) -> Generator[None, None, list[Line]]:
    """The log without the lines that its redrives rewound."""
    if not any(isinstance(line.event, Redriven) for line in lines):
        return lines
    rewound = (yield from rewind_in_chunks(lines)).lines
    return [line for line in lines if line.seq not in rewound]


def drop_rewound(lines: list[Line]) -> list[Line]:
    """The log without the lines that its redrives rewound, in one go."""
    return run_to_completion(drop_rewound_in_chunks(lines))
