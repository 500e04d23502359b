"""What redrives undo in a log: a failure, and all that came of it and nothing else."""

from collections import defaultdict
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from redrive.flows.events import (
    COMMANDS,
    ENDINGS,
    CancelRequested,
    ItemAdded,
    Redriven,
    TimerFired,
    TimerSet,
    is_activation,
)
from redrive.flows.pieces import at_once, parts_of

if TYPE_CHECKING:
    from redrive.flows.history import Line


class Rewind:
    """Reads a log line by line, and keeps what came of what: a redrive costs no more than the lines it undoes."""

    def __init__(self, lines: "Iterable[Line]" = ()) -> None:
        self.lines: set[int] = set()
        """Those that no longer count."""
        self.items: set[int] = set()
        """Those that were asked for only because of what is undone."""
        self._turns: list[int] = []
        """The lines that gave the flow's code a turn."""
        self._of_turn: defaultdict[int, list[Line]] = defaultdict(list)
        self._of_item: defaultdict[int, list[Line]] = defaultdict(list)
        self._of_timer: defaultdict[int, list[Line]] = defaultdict(list)
        self._ends: list[Line] = []
        """Of the flow, and what asked for them."""
        for line in lines:
            self.read(line)

    def read(self, line: "Line") -> None:
        event = line.event
        if isinstance(event, Redriven):
            self._undo(event)
        if isinstance(event, (*ENDINGS, CancelRequested)):
            self._ends.append(line)
        elif isinstance(event, TimerFired):
            self._of_timer[event.timer].append(line)
        elif (item := getattr(event, "item", None)) is not None:
            self._of_item[item].append(line)
        if is_activation(event):
            self._turns.append(line.seq)
        elif isinstance(event, COMMANDS):
            # Behind a redrive, the last turn that still counts.
            while self._turns and self._turns[-1] in self.lines:
                self._turns.pop()
            if self._turns:
                self._of_turn[self._turns[-1]].append(line)

    def _undo(self, redriven: Redriven) -> None:
        gone = []
        while self._ends and self._ends[-1].seq >= redriven.since:
            gone.append(self._ends.pop())
        if redriven.item is not None:
            gone += [line for line in self._of_item[redriven.item] if line.seq == redriven.since]
        while gone:
            seq, _, event = gone.pop()
            if seq in self.lines:
                continue
            self.lines.add(seq)
            if isinstance(event, ItemAdded):
                self.items.add(event.item)
                gone += self._of_item.pop(event.item)
            elif isinstance(event, TimerSet):
                gone += self._of_timer.pop(event.timer, ())
            elif is_activation(event):
                gone += self._of_turn.pop(seq, ())


def reading_rewound(lines: "list[Line]") -> "Generator[None, None, Rewind]":
    """What the redrives of a whole log undo, in pieces."""
    rewind = Rewind()
    for index, part in enumerate(parts_of(lines)):
        if index:
            yield
        for line in part:
            rewind.read(line)
    return rewind


def leaving_out_rewound(lines: "list[Line]") -> "Generator[None, None, list[Line]]":
    """The log without what a later redrive undid, in pieces."""
    if not any(isinstance(line.event, Redriven) for line in lines):
        return lines
    undone = (yield from reading_rewound(lines)).lines
    return [line for line in lines if line.seq not in undone]


def without_rewound(lines: "list[Line]") -> "list[Line]":
    """The same in one piece."""
    return at_once(leaving_out_rewound(lines))
