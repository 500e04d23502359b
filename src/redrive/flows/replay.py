"""Replay a flow's log: its code must issue the commands that the log has, and so reaches its current state."""

from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import Any

from redrive.errors import NondeterminismError, SignalRefusedError
from redrive.failures.redaction import redact
from redrive.flows.child_events import (
    ChildCancelled,
    ChildCancelRequested,
    ChildCompleted,
    ChildFailed,
    ChildSignalled,
    ChildStarted,
)
from redrive.flows.commands import (
    AnswerUpdate,
    CancelChild,
    CancelItem,
    Command,
    ContinueRun,
    EndFlow,
    MarkPatch,
    ScheduleItem,
    SettleStep,
    SignalChild,
    StartChild,
    StartTimer,
)
from redrive.flows.driver import Driver
from redrive.flows.errors.item_error import item_error
from redrive.flows.events import (
    COMMANDS,
    AnyEvent,
    AttemptFailed,
    CancelRequested,
    FlowBegan,
    FlowCompleted,
    FlowFailed,
    FlowParked,
    ItemAdded,
    ItemCancelled,
    ItemCompleted,
    ItemGaveUp,
    Line,
    PatchMarked,
    Redriven,
    Resumed,
    StepSettled,
    TimerFired,
    TimerSet,
    TurnContinued,
    is_activation,
)
from redrive.flows.history import FlowHistory
from redrive.flows.message_events import SignalReceived, UpdateAccepted, UpdateCompleted, UpdateFailed
from redrive.flows.recorded_commands import RecordedCommands, commands_in, is_same
from redrive.flows.rewind import drop_rewound_in_chunks
from redrive.flows.workflows.source_lines import raising_line
from redrive.policies.policy import DEFAULT_POLICY

LINES_PER_CHUNK = 400


def replay(
    lines: list[Line], driver: Driver, history: FlowHistory, started_at: float
) -> Generator[None, None, list[Command]]:
    """Feed the log to the driver and fold it into the history. Returns the commands that are not in the log yet.

    A generator, which yields between chunks of work so that other tasks get a turn.
    """
    for line in lines:
        # Rewound items keep their numbers: no new item may get the receipt token of one that has run.
        if isinstance(line.event, ItemAdded):
            history.last_item = max(history.last_item, line.event.item)
        elif isinstance(line.event, TimerSet):
            history.last_timer = max(history.last_timer, line.event.timer)
        elif isinstance(line.event, ChildStarted):
            history.children.last = max(history.children.last, line.event.child)
    lines = yield from drop_rewound_in_chunks(lines)
    patches = {line.event.patch for line in lines if isinstance(line.event, PatchMarked)}
    # Between the line that a redrive rewinds to and the redrive itself, the code may issue other commands.
    anew = sorted((line.event.since, line.seq) for line in lines if isinstance(line.event, Redriven))
    begun, anew_until = 0, 0
    redriven, unanswered = _RedrivenPart(), last_decisive_line(lines)
    replayed = 0
    for index, turn in enumerate(_turns(lines)):
        replayed += len(turn)
        if replayed >= LINES_PER_CHUNK:
            replayed = 0
            yield
        seq, at, event = turn[0] if index else (0, started_at, None)
        while begun < len(anew) and anew[begun][0] <= seq:
            anew_until = max(anew_until, anew[begun][1])
            begun += 1
        is_anew = seq < anew_until
        driver.replay(patches, is_anew)
        # The log has the new commands right after the redrive, once they were logged.
        commands = redriven.take(history) if isinstance(event, Redriven) else []
        if event is not None:
            history.apply(at, event)
        if isinstance(event, Redriven) and event.compensation and event.item is not None:
            driver.reopened(event.item)
        if isinstance(event, SignalReceived | UpdateAccepted):
            commands = _signal(driver, seq, at, event)
        elif not isinstance(event, Redriven):
            commands = _activate(driver, history, event, at)
        elif turn[0] is unanswered:
            redriven.commands = commands
            for line in turn[1:]:
                history.apply(line.at, line.event)
            break
        skipped = redriven.match(commands, turn, driver, at) if is_anew else _match(commands, turn, driver, at)
        for line in turn[1:] if index else turn:
            if line.seq not in skipped:
                history.apply(line.at, line.event)
        if not driver.has_more:
            history.long_turn = None
        elif history.long_turn is None:
            history.long_turn = seq
    driver.replay(None)
    return redriven.commands


def has_begun(lines: list[Line]) -> bool:
    """Whether the flow's code has had a turn."""
    return any(isinstance(line.event, (*COMMANDS, FlowBegan, Redriven)) for line in lines)


def began_at(lines: list[Line]) -> float:
    """When the flow's code had its first turn."""
    return next((line.at for line in lines if isinstance(line.event, (*COMMANDS, FlowBegan))), lines[0].at)


def last_decisive_line(lines: list[Line]) -> Line | None:
    """The last line that is not about parking the flow.

    If it is a redrive, the commands that follow from it are not in the log yet.
    """
    parked = (FlowParked, Resumed)
    return next((line for line in reversed(lines) if not isinstance(line.event, parked)), None)


class _RedrivenPart:
    """Compares the part of the log that a redrive repeats with the commands that the code issues now."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        """Commands that are issued now and are not in the log."""
        self.orphans: list[Command] = []
        """What cancels items and children in the log that are not scheduled and started now."""

    def match(self, commands: list[Command], turn: list[Line], driver: Driver, at: float) -> set[int]:
        """Match each command with the same one in the log, so that nothing runs twice. Returns the lines to skip."""
        lines = commands_in(turn)
        while driver.has_more and len(lines) > len(commands):
            # Earlier versions logged all commands of a turn at once, however many.
            commands += driver.more(at)
        recorded = RecordedCommands(lines)
        for command in commands:  # grows on the way
            line = recorded.take(command)
            if line is None:
                self.commands.append(command)
            else:
                commands += _bind(command, line.event, driver, at)
        left = recorded.left
        for line in left:
            if isinstance(line.event, ItemAdded):
                self.orphans.append(CancelItem(_orphan(line.event.item)))
            elif isinstance(line.event, ChildStarted):
                self.orphans.append(CancelChild(line.event.child, ""))
        return {line.seq for line in left if isinstance(line.event, ItemCancelled)}

    def take(self, history: FlowHistory) -> list[Command]:
        """The commands that follow the redrive: the new ones, and the cancellation of orphans."""
        commands = self.commands + self.orphans
        self.commands, self.orphans = [], []
        return [
            command
            for command in commands
            if not (isinstance(command, CancelItem) and _has_ended(command.scheduled.item, history))
        ]


def _has_ended(number: int, history: FlowHistory) -> bool:
    """Whether the item is in the log and closed, so that its cancellation is not logged."""
    item = history.items.get(number)
    return number != 0 and (item is None or not item.is_open)


def _orphan(item: int) -> ScheduleItem:
    command = ScheduleItem("", "", None, DEFAULT_POLICY, None, "")
    command.item = item
    return command


def _turns(lines: list[Line]) -> Iterator[list[Line]]:
    """Split the log at its activations and redrives; the first turn has the commands of the start."""
    turn: list[Line] = []
    for line in lines:
        if is_activation(line.event) or isinstance(line.event, Redriven):
            yield turn
            turn = []
        turn.append(line)
    yield turn


def _activate(driver: Driver, history: FlowHistory, event: AnyEvent | None, at: float) -> list[Command]:
    if isinstance(event, ItemCompleted):
        if event.resolved:
            return driver.resolved(event.item, at)
        return driver.completed(event.item, bytes(event.result).decode(), at)
    if isinstance(event, AttemptFailed | ItemGaveUp) and is_activation(event):
        return driver.failed(event.item, item_error(history.items[event.item], event), at)
    if isinstance(event, TimerFired):
        return driver.fired(event.timer, at)
    if isinstance(event, ChildCompleted | ChildFailed | ChildCancelled):
        return driver.child_ended(event, at)
    if isinstance(event, TurnContinued):
        return driver.more(at)
    return driver.cancel(at) if isinstance(event, CancelRequested) else driver.start(at)


def _signal(driver: Driver, seq: int, at: float, event: SignalReceived | UpdateAccepted) -> list[Command]:
    args = bytes(event.args).decode()
    if isinstance(event, UpdateAccepted):
        if why := driver.misfit_of_update(event.update, args):
            raise NondeterminismError(seq, f"update {event.update}({_shortened(args)}) was accepted", why, "")
        return driver.updated(event.id, event.update, args, at)
    if not event.mailbox:
        # In the mailbox it stays, even if the code has a handler by now.
        try:
            why = "it has no @signal method of that name" if driver.check_signal(event.signal, args) else ""
        except SignalRefusedError as error:
            why = str(error)
        if why:
            raise NondeterminismError(seq, f"signal {event.signal}({_shortened(args)}) for its handler", why, "")
    return driver.signalled(event.signal, args, event.mailbox, at)


def _match(commands: list[Command], turn: list[Line], driver: Driver, at: float) -> set[int]:
    """Raise NondeterminismError unless the log has exactly these commands. No line is skipped."""
    recorded = commands_in(turn)
    done = index = 0
    while index < len(commands) or (driver.has_more and len(recorded) > done):
        if index == len(commands):
            # Earlier versions logged all commands of a turn at once, however many.
            commands += driver.more(at)
            continue
        command = commands[index]
        index += 1
        line = recorded[done] if done < len(recorded) else None
        if line is None or not is_same(command, line.event):
            if isinstance(command, CancelItem) and command.lets_attempt_finish:
                # Its attempt was running, so the item was not cancelled.
                continue
            if line is not None and driver.has_more:
                # As above: these commands come before the ones that are left.
                index -= 1
                commands[index:index] = driver.more(at)
                continue
            seq = line.seq if line else (turn[-1].seq if turn else 0)
            logged = _in_words(line.event) if line else "no further command"
            raise NondeterminismError(seq, logged, _command_in_words(command), _where(command))
        commands += _bind(command, line.event, driver, at)
        done += 1
    if len(recorded) > done:
        line = recorded[done]
        raise NondeterminismError(line.seq, _in_words(line.event), "no further command", "")
    return set()


def _bind(command: Command, event: Any, driver: Driver, at: float) -> list[Command]:
    """Tell the driver the number of its command in the log. Returns the commands that follow from that."""
    if isinstance(command, ScheduleItem):
        driver.bind_item(command, event.item)
    elif isinstance(command, StartTimer):
        driver.bind_timer(command, event.timer)
    elif isinstance(command, StartChild):
        return driver.bind_child(command, event.child, event.flow, at)
    elif isinstance(command, CancelItem) and command.lets_attempt_finish:
        return driver.item_cancelled(event.item, at)
    return []


def _in_words(event: AnyEvent) -> str:
    if isinstance(event, ItemAdded):
        return f"action {event.step}({_shortened(bytes(event.args).decode())})"
    if isinstance(event, TimerSet):
        return f"a timer until {_time_text(event.until)}"
    if isinstance(event, ItemCancelled):
        return f"item {event.item} is cancelled"
    if isinstance(event, PatchMarked):
        return f'patched("{event.patch}")'
    if isinstance(event, StepSettled):
        return f"step {event.step} is {event.state}"
    if isinstance(event, UpdateCompleted | UpdateFailed):
        return f"update {event.update} is answered"
    if isinstance(event, ChildStarted):
        return f"child {event.definition}({_shortened(bytes(event.args).decode())})"
    if isinstance(event, ChildCancelRequested):
        return f"child {event.child} is cancelled"
    if isinstance(event, ChildSignalled):
        return f"signal {event.signal}({_shortened(bytes(event.args).decode())}) to child {event.child}"
    if isinstance(event, FlowCompleted):
        return "the end of run"
    return "run failed" if isinstance(event, FlowFailed) else "run was cancelled"


def _command_in_words(command: Command) -> str:
    if isinstance(command, ScheduleItem):
        return f"action {command.step}({_shortened(command.args)})"
    if isinstance(command, StartTimer):
        return f"a timer until {_time_text(command.time)}"
    if isinstance(command, CancelItem):
        return f"item {command.scheduled.item} is cancelled"
    if isinstance(command, MarkPatch):
        return f'patched("{command.name}")'
    if isinstance(command, SettleStep):
        return f"step {command.step} is {command.state}"
    if isinstance(command, AnswerUpdate):
        return f"update {command.update} is answered"
    if isinstance(command, StartChild):
        return f"child {command.definition}({_shortened(command.args)})"
    if isinstance(command, CancelChild):
        return f"child {command.child} is cancelled"
    if isinstance(command, SignalChild):
        return f"signal {command.signal}({_shortened(command.args)}) to child {command.child}"
    if isinstance(command, ContinueRun):
        return "continue_as_new()"
    if command.outcome == "failed":
        return f"run failed with {type(command.error).__name__}: {command.error}"
    return "the end of run" if command.outcome == "completed" else "run was cancelled"


def _where(command: Command) -> str:
    if isinstance(command, EndFlow):
        return raising_line(command.error)
    return "" if isinstance(command, CancelItem | SettleStep | AnswerUpdate | ContinueRun) else command.where


def _time_text(at: float) -> str:
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        # A log may have a time that datetime cannot represent.
        return f"{at:.3f}"
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def _shortened(text: str) -> str:
    return redact(text.strip("{}"), 120)
