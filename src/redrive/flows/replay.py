"""Bring a flow's code to where its log ends. What it asks for must be what the log says it asked for."""

from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from redrive.errors import NondeterminismError, UnknownDefinitionError
from redrive.failures.redaction import redact
from redrive.flows.asks import Ask, CancelAsk, EndAsk, ItemAsk, PatchAsk, SettledAsk, TimerAsk
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
from redrive.flows.registry import action_named
from redrive.flows.undoing import leaving_out_undone
from redrive.policies.policy import DEFAULT_POLICY

TURNS_AT_ONCE = 200


def replay(
    lines: list[Line], driver: Driver, history: FlowHistory, started_at: float
) -> Generator[None, None, list[Ask]]:
    """Feed the log to the driver and fold it into the history. Answers what is asked for and not in the log yet.

    In pieces: between them others may have the processor.
    """
    for line in lines:
        # What a redrive undid keeps its numbers: no other item may have the receipt token of one that was carried out.
        if isinstance(line.event, ItemAdded):
            history.last_item = max(history.last_item, line.event.item)
        elif isinstance(line.event, TimerSet):
            history.last_timer = max(history.last_timer, line.event.timer)
    lines = yield from leaving_out_undone(lines)
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
        asks = redone.take(history) if isinstance(event, Redriven) else []
        if event is not None:
            history.apply(at, event)
        if not isinstance(event, Redriven):
            asks = _activate(driver, history, event, at)
        elif turn[0] is unanswered:
            redone.asks = asks
            for line in turn[1:]:
                history.apply(line.at, line.event)
            break
        left_out = redone.match(asks, turn, driver, at) if is_anew else _match(asks, turn, driver, at)
        for line in turn[1:] if index else turn:
            if line not in left_out:
                history.apply(line.at, line.event)
    driver.replay(None)
    return redone.asks


def last_word(lines: list[Line]) -> Line | None:
    """The last line, leaving aside that the code did not fit then.

    What a redrive asks for is not in the log where it is this one: it was logged just now, or could not be carried out.
    """
    parked = (FlowParked, Resumed)
    return next((line for line in reversed(lines) if not isinstance(line.event, parked)), None)


class _Redone:
    """What came of the part of the log that a redrive answers anew."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        """What is asked for now and was not then."""
        self.orphans: list[int] = []
        """Items that were asked for then and are not now."""

    def match(self, asks: list[Ask], turn: list[Line], driver: Driver, at: float) -> list[Line]:
        """Keep what was asked for then and is again, so that nothing is done twice. Answers what did not happen now."""
        commands = _commands(turn)
        for ask in asks:  # which grow
            line = next((line for line in commands if _same(ask, line.event)), None)
            if line is None:
                self.asks.append(ask)
            else:
                commands.remove(line)
                asks += _bind(ask, line.event, driver, at)
        self.orphans += [line.event.item for line in commands if isinstance(line.event, ItemAdded)]
        return [line for line in commands if isinstance(line.event, ItemCancelled)]

    def take(self, history: FlowHistory) -> list[Ask]:
        """All that is to be asked for behind the redrive: items that nobody waits for any more are cancelled."""
        asks = self.asks + [CancelAsk(_orphan(item)) for item in self.orphans]
        self.asks, self.orphans = [], []
        return [ask for ask in asks if not (isinstance(ask, CancelAsk) and _has_ended(ask.ask.item, history))]


def _has_ended(number: int, history: FlowHistory) -> bool:
    """Whether an item that the log knows has: to cancel it is nothing that is logged."""
    item = history.items.get(number)
    return number != 0 and (item is None or not item.is_open)


def _orphan(item: int) -> ItemAsk:
    ask = ItemAsk("", "", None, DEFAULT_POLICY, None, "")
    ask.item = item
    return ask


def _turns(lines: list[Line]) -> Iterator[list[Line]]:
    """The log, cut where the flow's code was given a turn; the first piece is what it asked for at its start."""
    piece: list[Line] = []
    for line in lines:
        if is_activation(line.event) or isinstance(line.event, Redriven):
            yield piece
            piece = []
        piece.append(line)
    yield piece


def _commands(turn: list[Line]) -> list[Line]:
    return [line for line in turn if isinstance(line.event, COMMANDS)]


def _activate(driver: Driver, history: FlowHistory, event: AnyEvent | None, at: float) -> list[Ask]:
    if isinstance(event, ItemCompleted):
        if event.resolved:
            return driver.resolved(event.item, at)
        return driver.completed(event.item, bytes(event.result).decode(), at)
    if isinstance(event, AttemptFailed | ItemGaveUp) and is_activation(event):
        return driver.failed(event.item, error_of(history.items[event.item], event), at)
    if isinstance(event, TimerFired):
        return driver.fired(event.timer, at)
    return driver.cancel(at) if isinstance(event, CancelRequested) else driver.start(at)


def _match(asks: list[Ask], turn: list[Line], driver: Driver, at: float) -> list[Line]:
    """NondeterminismError unless the log has just these; so nothing is left out."""
    commands = _commands(turn)
    done = 0
    for ask in asks:  # which grow
        line = commands[done] if done < len(commands) else None
        if line is None or not _same(ask, line.event):
            if isinstance(ask, CancelAsk) and ask.lets_run:
                # Its attempt was under way.
                continue
            seq = line.seq if line else (turn[-1].seq if turn else 0)
            logged = _in_words(line.event) if line else "nothing more was asked for"
            raise NondeterminismError(seq, logged, _ask_in_words(ask), _where(ask))
        asks += _bind(ask, line.event, driver, at)
        done += 1
    if len(commands) > done:
        line = commands[done]
        raise NondeterminismError(line.seq, _in_words(line.event), "nothing is asked for here", "")
    return []


def _bind(ask: Ask, command: Any, driver: Driver, at: float) -> list[Ask]:
    """Tell the driver what its ask is in the log; answers what it asks for then."""
    if isinstance(ask, ItemAsk):
        driver.bind_item(ask, command.item)
    elif isinstance(ask, TimerAsk):
        driver.bind_timer(ask, command.timer)
    elif isinstance(ask, CancelAsk) and ask.lets_run:
        return driver.dropped(command.item, at)
    return []


def _same(ask: Ask, command: AnyEvent) -> bool:
    if isinstance(ask, ItemAsk):
        return (
            isinstance(command, ItemAdded)
            and (command.step, command.index, command.undoes) == (ask.step, ask.index, ask.undoes)
            and (bytes(command.args).decode() == ask.args or _reads_the_same(ask, command.args))
        )
    if isinstance(ask, TimerAsk):
        return isinstance(command, TimerSet) and abs(command.until - ask.time) < 1e-3
    if isinstance(ask, CancelAsk):
        return isinstance(command, ItemCancelled) and command.item == ask.ask.item
    if isinstance(ask, SettledAsk):
        return isinstance(command, StepSettled) and (command.step, command.state) == (ask.step, ask.state)
    if isinstance(ask, PatchAsk):
        return isinstance(command, PatchMarked) and command.patch == ask.name
    if ask.how == "completed":
        return isinstance(command, FlowCompleted)
    return isinstance(command, FlowFailed if ask.how == "failed" else FlowCancelled)


def _reads_the_same(ask: ItemAsk, logged: msgspec.Raw) -> bool:
    try:
        signature = action_named(ask.step).signature
    except UnknownDefinitionError:
        return False
    return signature.says_the_same(bytes(logged).decode(), ask.args)


def _in_words(command: AnyEvent) -> str:
    if isinstance(command, ItemAdded):
        return f"action {command.step}({_shortened(bytes(command.args).decode())})"
    if isinstance(command, TimerSet):
        return f"a timer until {_moment(command.until)}"
    if isinstance(command, ItemCancelled):
        return f"item {command.item} is no longer waited for"
    if isinstance(command, PatchMarked):
        return f'patched("{command.patch}")'
    if isinstance(command, StepSettled):
        return f"step {command.step} is {command.state}"
    if isinstance(command, FlowCompleted):
        return "the end of run"
    return "run failed" if isinstance(command, FlowFailed) else "run was cancelled"


def _ask_in_words(ask: Ask) -> str:
    if isinstance(ask, ItemAsk):
        return f"action {ask.step}({_shortened(ask.args)})"
    if isinstance(ask, TimerAsk):
        return f"a timer until {_moment(ask.time)}"
    if isinstance(ask, CancelAsk):
        return f"item {ask.ask.item} is no longer waited for"
    if isinstance(ask, PatchAsk):
        return f'patched("{ask.name}")'
    if isinstance(ask, SettledAsk):
        return f"step {ask.step} is {ask.state}"
    if ask.how == "failed":
        return f"run failed with {type(ask.error).__name__}: {ask.error}"
    return "the end of run" if ask.how == "completed" else "run was cancelled"


def _where(ask: Ask) -> str:
    if isinstance(ask, EndAsk):
        trace, where = ask.error.__traceback__ if ask.error is not None else None, ""
        while trace is not None:
            if not is_ours(trace.tb_frame):
                where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
            trace = trace.tb_next
        return where
    return "" if isinstance(ask, CancelAsk | SettledAsk) else ask.where


def _moment(at: float) -> str:
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        # No calendar has it, but a log may.
        return f"{at:.3f}"
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def _shortened(text: str) -> str:
    return redact(text.strip("{}"), 120)
