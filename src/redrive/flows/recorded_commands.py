"""Find the command in a turn of the log that equals one that the code issues now, in time that does not grow."""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

import msgspec

from redrive.errors import UnknownDefinitionError
from redrive.flows.action import action_named
from redrive.flows.child_events import ChildCancelRequested, ChildSignalled, ChildStarted
from redrive.flows.commands import (
    AnswerUpdate,
    CancelChild,
    CancelItem,
    Command,
    EndFlow,
    MarkPatch,
    ScheduleItem,
    SettleStep,
    SignalChild,
    StartChild,
    StartTimer,
)
from redrive.flows.events import (
    COMMANDS,
    AnyEvent,
    FlowCancelled,
    FlowCompleted,
    FlowFailed,
    ItemAdded,
    ItemCancelled,
    Line,
    PatchMarked,
    StepSettled,
    TimerSet,
)
from redrive.flows.message_events import UpdateCompleted, UpdateFailed

# Stored times are rounded to microseconds.
_ROUNDING = 1e-3
_ENDINGS = {"completed": FlowCompleted, "failed": FlowFailed, "cancelled": FlowCancelled}


def commands_in(turn: list[Line]) -> list[Line]:
    return [line for line in turn if isinstance(line.event, COMMANDS)]


def is_same(command: Command, event: AnyEvent) -> bool:
    """Whether the log has the command as this event."""
    if isinstance(command, ScheduleItem):
        return (
            isinstance(event, ItemAdded)
            and (event.step, event.index, event.compensates) == (command.step, command.index, command.compensates)
            and (bytes(event.args).decode() == command.args or _has_equal_arguments(command, event.args))
        )
    if isinstance(command, StartTimer):
        return isinstance(event, TimerSet) and abs(event.until - command.time) < _ROUNDING
    if isinstance(command, CancelItem):
        return isinstance(event, ItemCancelled) and event.item == command.scheduled.item
    if isinstance(command, SettleStep):
        return isinstance(event, StepSettled) and (event.step, event.state) == (command.step, command.state)
    if isinstance(command, MarkPatch):
        return isinstance(event, PatchMarked) and event.patch == command.name
    if isinstance(command, AnswerUpdate):
        return isinstance(event, _answer(command)) and event.id == command.id
    if isinstance(command, StartChild):
        return isinstance(event, ChildStarted) and _is_same_child(command, event)
    if isinstance(command, CancelChild):
        return isinstance(event, ChildCancelRequested) and event.child == command.child
    if isinstance(command, SignalChild):
        return isinstance(event, ChildSignalled) and _is_same_signal(command, event)
    return isinstance(command, EndFlow) and isinstance(event, _ENDINGS[command.outcome])


class RecordedCommands:
    """The commands of one turn in the log. Each is taken once, the first that equals what the code issues."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._left = {line.seq: line for line in lines}
        self._by_key: defaultdict[Hashable, deque[Line]] = defaultdict(deque)
        self._by_letters: dict[Hashable, deque[Line]] | None = None
        for line in self._left.values():
            self._by_key[_key_of(line.event)].append(line)

    @property
    def left(self) -> list[Line]:
        """Those that were not taken, in order."""
        return list(self._left.values())

    def take(self, command: Command) -> Line | None:
        """Take the first line that has the command; None when there is none."""
        found = [line for key in _keys_for(command) if (line := self._first(self._by_key.get(key), command))]
        if not found and isinstance(command, ScheduleItem):
            # Its arguments may be written in another way now: with new defaults, or sets in another order.
            letters = self._index_by_letters().get((_step_of(command), _letters(command.args)))
            found = [line] if (line := self._first(letters, command)) else []
        if not found:
            return None
        taken = min(found, key=lambda line: line.seq)
        del self._left[taken.seq]
        return taken

    def _first(self, lines: deque[Line] | None, command: Command) -> Line | None:
        """The first of these lines that is left and has the command."""
        while lines and lines[0].seq not in self._left:
            lines.popleft()
        return next((line for line in lines or () if line.seq in self._left and is_same(command, line.event)), None)

    def _index_by_letters(self) -> dict[Hashable, deque[Line]]:
        if self._by_letters is None:
            self._by_letters = defaultdict(deque)
            for line in self._left.values():
                if isinstance(line.event, ItemAdded):
                    key = _step_of(line.event), _letters(_rewritten(line.event))
                    self._by_letters[key].append(line)
        return self._by_letters


def _step_of(item: ItemAdded | ScheduleItem) -> Hashable:
    return item.step, item.index, item.compensates


def _key_of(event: AnyEvent) -> Hashable:
    """Equal for equal commands; for timers, for those of the same millisecond."""
    if isinstance(event, ItemAdded):
        return _step_of(event), bytes(event.args).decode()
    if isinstance(event, TimerSet):
        return "timer", round(event.until / _ROUNDING)
    if isinstance(event, ItemCancelled):
        return "cancelled", event.item
    if isinstance(event, StepSettled):
        return "settled", event.step, event.state
    if isinstance(event, PatchMarked):
        return "patch", event.patch
    if isinstance(event, UpdateCompleted | UpdateFailed):
        return type(event).__name__, event.id
    if isinstance(event, ChildStarted):
        return "child", event.definition, event.key
    if isinstance(event, ChildCancelRequested):
        return "child cancelled", event.child
    if isinstance(event, ChildSignalled):
        return "child signalled", event.child, event.signal
    return type(event).__name__


def _answer(command: AnswerUpdate) -> type[UpdateCompleted | UpdateFailed]:
    return UpdateCompleted if command.error is None else UpdateFailed


def _keys_for(command: Command) -> list[Hashable]:
    """The keys of the events that may be this command."""
    if isinstance(command, ScheduleItem):
        return [(_step_of(command), command.args)]
    if isinstance(command, StartTimer):
        at = round(command.time / _ROUNDING)
        return [("timer", at - 1), ("timer", at), ("timer", at + 1)]
    if isinstance(command, CancelItem):
        return [("cancelled", command.scheduled.item)]
    if isinstance(command, SettleStep):
        return [("settled", command.step, command.state)]
    if isinstance(command, MarkPatch):
        return [("patch", command.name)]
    if isinstance(command, AnswerUpdate):
        return [(_answer(command).__name__, command.id)]
    if isinstance(command, StartChild):
        return [("child", command.definition, command.key)]
    if isinstance(command, CancelChild):
        return [("child cancelled", command.child)]
    if isinstance(command, SignalChild):
        return [("child signalled", command.child, command.signal)]
    return [_ENDINGS[command.outcome].__name__] if isinstance(command, EndFlow) else []


def _is_same_child(command: StartChild, event: ChildStarted) -> bool:
    if (command.definition, command.key) != (event.definition, event.key):
        return False
    return _are_same(command.args, event.args)


def _is_same_signal(command: SignalChild, event: ChildSignalled) -> bool:
    return (command.child, command.signal) == (event.child, event.signal) and _are_same(command.args, event.args)


def _are_same(args: str, logged: msgspec.Raw) -> bool:
    text = bytes(logged).decode()
    # Sets may be written in another order now.
    return text == args or _letters(text) == _letters(args)


def _letters(text: str) -> str:
    """The same for texts that differ only in order."""
    return "".join(sorted(text))


def _rewritten(event: ItemAdded) -> str:
    """The arguments as this process would write them."""
    stored = bytes(event.args).decode()
    try:
        return action_named(event.step).signature.rewrite(stored)
    except Exception:  # noqa: BLE001 - decoding runs user code; what cannot be read equals nothing but itself
        return stored


def _has_equal_arguments(command: ScheduleItem, logged: msgspec.Raw) -> bool:
    try:
        signature = action_named(command.step).signature
    except UnknownDefinitionError:
        return False
    return signature.are_equivalent(bytes(logged).decode(), command.args)
