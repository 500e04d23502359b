"""Bring a flow's code to where its log ends. What it asks for must be what the log says it asked for."""

from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from redrive.failures.redaction import redact
from redrive.flows.commands import CancelItem, Command, EndFlow, MarkPatch, ScheduleItem, SettleStep, StartTimer
from redrive.flows.driver import Driver
from redrive.flows.events import (
    COMMANDS,
    AnyEvent,
    AttemptFailed,
    CancelRequested,
    FlowCancelled,
    FlowCompleted,
    FlowFailed,
    FlowParked,
    ItemAdded,
    ItemCancelled,
    ItemCompleted,
    ItemGaveUp,
    PatchMarked,
    Redriven,
    Resumed,
    StepSettled,
    TimerFired,
    TimerSet,
    is_activation,
)
from redrive.flows.failed_item import error_of
from redrive.flows.history import FlowHistory, Line
from redrive.flows.loop import is_ours
from redrive.flows.registry import UnknownDefinition, action_named
from redrive.flows.rewind import leaving_out_rewound
from redrive.policies.policy import DEFAULT_POLICY

TURNS_AT_ONCE = 200


class NonDeterminism(RuntimeError):
    """The flow's code no longer does what its log says it did."""

    def __init__(self, seq: int, logged: str, now: str, where: str) -> None:
        place = f" ({where})" if where else ""
        super().__init__(
            f"line {seq} of the log says: {logged}; the code now says: {now}{place}. Bring the code back to what it "
            "was for flows that began with it (`if workflow.patched(...)` keeps both), then resume the flow"
        )
        self.seq = seq
        self.logged = logged
        self.now = now
        self.where = where


def replay(
    lines: list[Line], driver: Driver, history: FlowHistory, started_at: float
) -> Generator[None, None, list[Command]]:
    """Feed the log to the driver and fold it into the history. Answers what is asked for and not in the log yet.

    In pieces: between them others may have the processor.
    """
    for line in lines:
        # What a redrive undid keeps its numbers: no other item may have the receipt token of one that was carried out.
        if isinstance(line.event, ItemAdded):
            history.last_item = max(history.last_item, line.event.item)
        elif isinstance(line.event, TimerSet):
            history.last_timer = max(history.last_timer, line.event.timer)
    lines = yield from leaving_out_rewound(lines)
    patches = {line.event.patch for line in lines if isinstance(line.event, PatchMarked)}
    # Between the line from which on a redrive answers anew and the redrive, the code may ask for other things.
    anew = sorted((line.event.since, line.seq) for line in lines if isinstance(line.event, Redriven))
    begun, anew_until = 0, 0
    redone, unanswered = _Redone(), last_word(lines)
    for index, turn in enumerate(_turns(lines)):
        if index % TURNS_AT_ONCE == TURNS_AT_ONCE - 1:
            yield
        seq, at, event = turn[0] if index else (0, started_at, None)
        while begun < len(anew) and anew[begun][0] <= seq:
            anew_until = max(anew_until, anew[begun][1])
            begun += 1
        is_anew = seq < anew_until
        driver.replay(patches, is_anew)
        # What was asked for anew stands right behind the redrive, once that was answered.
        commands = redone.take(history) if isinstance(event, Redriven) else []
        if event is not None:
            history.apply(at, event)
        if not isinstance(event, Redriven):
            commands = _activate(driver, history, event, at)
        elif turn[0] is unanswered:
            redone.commands = commands
            for line in turn[1:]:
                history.apply(line.at, line.event)
            break
        left_out = redone.match(commands, turn, driver, at) if is_anew else _match(commands, turn, driver, at)
        for line in turn[1:] if index else turn:
            if line not in left_out:
                history.apply(line.at, line.event)
    driver.replay(None)
    return redone.commands


def last_word(lines: list[Line]) -> Line | None:
    """The last line, leaving aside that the code did not fit then.

    What a redrive asks for is not in the log where it is this one: it was logged just now, or could not be carried out.
    """
    parked = (FlowParked, Resumed)
    return next((line for line in reversed(lines) if not isinstance(line.event, parked)), None)


class _Redone:
    """What came of the part of the log that a redrive answers anew."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        """What is asked for now and was not then."""
        self.orphans: list[int] = []
        """Items that were asked for then and are not now."""

    def match(self, commands: list[Command], turn: list[Line], driver: Driver, at: float) -> list[Line]:
        """Keep what was asked for then and is again, so that nothing is done twice. Answers what did not happen now."""
        recorded = _recorded_commands(turn)
        for command in commands:  # which grow
            line = next((line for line in recorded if _same(command, line.event)), None)
            if line is None:
                self.commands.append(command)
            else:
                recorded.remove(line)
                commands += _bind(command, line.event, driver, at)
        self.orphans += [line.event.item for line in recorded if isinstance(line.event, ItemAdded)]
        return [line for line in recorded if isinstance(line.event, ItemCancelled)]

    def take(self, history: FlowHistory) -> list[Command]:
        """All that is to be asked for behind the redrive: items that nobody waits for any more are cancelled."""
        commands = self.commands + [CancelItem(_orphan(item)) for item in self.orphans]
        self.commands, self.orphans = [], []
        return [
            command
            for command in commands
            if not (isinstance(command, CancelItem) and _has_ended(command.scheduled.item, history))
        ]


def _has_ended(number: int, history: FlowHistory) -> bool:
    """Whether an item that the log knows has: to cancel it is nothing that is logged."""
    item = history.items.get(number)
    return number != 0 and (item is None or not item.is_open)


def _orphan(item: int) -> ScheduleItem:
    command = ScheduleItem("", "", None, DEFAULT_POLICY, None, "")
    command.item = item
    return command


def _turns(lines: list[Line]) -> Iterator[list[Line]]:
    """The log, cut where the flow's code was given a turn; the first piece is what it asked for at its start."""
    piece: list[Line] = []
    for line in lines:
        if is_activation(line.event) or isinstance(line.event, Redriven):
            yield piece
            piece = []
        piece.append(line)
    yield piece


def _recorded_commands(turn: list[Line]) -> list[Line]:
    return [line for line in turn if isinstance(line.event, COMMANDS)]


def _activate(driver: Driver, history: FlowHistory, event: AnyEvent | None, at: float) -> list[Command]:
    if isinstance(event, ItemCompleted):
        if event.resolved:
            return driver.resolved(event.item, at)
        return driver.completed(event.item, bytes(event.result).decode(), at)
    if isinstance(event, AttemptFailed | ItemGaveUp) and is_activation(event):
        return driver.failed(event.item, error_of(history.items[event.item], event), at)
    if isinstance(event, TimerFired):
        return driver.fired(event.timer, at)
    return driver.cancel(at) if isinstance(event, CancelRequested) else driver.start(at)


def _match(commands: list[Command], turn: list[Line], driver: Driver, at: float) -> list[Line]:
    """NonDeterminism unless the log has just these; so nothing is left out."""
    recorded = _recorded_commands(turn)
    done = 0
    for command in commands:  # which grow
        line = recorded[done] if done < len(recorded) else None
        if line is None or not _same(command, line.event):
            if isinstance(command, CancelItem) and command.lets_run:
                # Its attempt was under way.
                continue
            seq = line.seq if line else (turn[-1].seq if turn else 0)
            logged = _in_words(line.event) if line else "nothing more was asked for"
            raise NonDeterminism(seq, logged, _command_in_words(command), _where(command))
        commands += _bind(command, line.event, driver, at)
        done += 1
    if len(recorded) > done:
        line = recorded[done]
        raise NonDeterminism(line.seq, _in_words(line.event), "nothing is asked for here", "")
    return []


def _bind(command: Command, event: Any, driver: Driver, at: float) -> list[Command]:
    """Tell the driver what its ask is in the log; answers what it asks for then."""
    if isinstance(command, ScheduleItem):
        driver.bind_item(command, event.item)
    elif isinstance(command, StartTimer):
        driver.bind_timer(command, event.timer)
    elif isinstance(command, CancelItem) and command.lets_run:
        return driver.dropped(event.item, at)
    return []


def _same(command: Command, event: AnyEvent) -> bool:
    if isinstance(command, ScheduleItem):
        return (
            isinstance(event, ItemAdded)
            and (event.step, event.index, event.compensates) == (command.step, command.index, command.compensates)
            and (bytes(event.args).decode() == command.args or _reads_the_same(command, event.args))
        )
    if isinstance(command, StartTimer):
        return isinstance(event, TimerSet) and abs(event.until - command.time) < 1e-3
    if isinstance(command, CancelItem):
        return isinstance(event, ItemCancelled) and event.item == command.scheduled.item
    if isinstance(command, SettleStep):
        return isinstance(event, StepSettled) and (event.step, event.state) == (command.step, command.state)
    if isinstance(command, MarkPatch):
        return isinstance(event, PatchMarked) and event.patch == command.name
    if command.how == "completed":
        return isinstance(event, FlowCompleted)
    return isinstance(event, FlowFailed if command.how == "failed" else FlowCancelled)


def _reads_the_same(command: ScheduleItem, logged: msgspec.Raw) -> bool:
    try:
        signature = action_named(command.step).signature
    except UnknownDefinition:
        return False
    return signature.says_the_same(bytes(logged).decode(), command.args)


def _in_words(event: AnyEvent) -> str:
    if isinstance(event, ItemAdded):
        return f"action {event.step}({_shortened(bytes(event.args).decode())})"
    if isinstance(event, TimerSet):
        return f"a timer until {_moment(event.until)}"
    if isinstance(event, ItemCancelled):
        return f"item {event.item} is no longer waited for"
    if isinstance(event, PatchMarked):
        return f'patched("{event.patch}")'
    if isinstance(event, StepSettled):
        return f"step {event.step} is {event.state}"
    if isinstance(event, FlowCompleted):
        return "the end of run"
    return "run failed" if isinstance(event, FlowFailed) else "run was cancelled"


def _command_in_words(command: Command) -> str:
    if isinstance(command, ScheduleItem):
        return f"action {command.step}({_shortened(command.args)})"
    if isinstance(command, StartTimer):
        return f"a timer until {_moment(command.time)}"
    if isinstance(command, CancelItem):
        return f"item {command.scheduled.item} is no longer waited for"
    if isinstance(command, MarkPatch):
        return f'patched("{command.name}")'
    if isinstance(command, SettleStep):
        return f"step {command.step} is {command.state}"
    if command.how == "failed":
        return f"run failed with {type(command.error).__name__}: {command.error}"
    return "the end of run" if command.how == "completed" else "run was cancelled"


def _where(command: Command) -> str:
    if isinstance(command, EndFlow):
        trace, where = command.error.__traceback__ if command.error is not None else None, ""
        while trace is not None:
            if not is_ours(trace.tb_frame):
                where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
            trace = trace.tb_next
        return where
    return "" if isinstance(command, CancelItem | SettleStep) else command.where


def _moment(at: float) -> str:
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        # No calendar has it, but a log may.
        return f"{at:.3f}"
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def _shortened(text: str) -> str:
    return redact(text.strip("{}"), 120)
