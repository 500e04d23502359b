"""Bring a flow's code to where its log ends. What it asks for must be what the log says it asked for."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from redrive.failures.redaction import redact
from redrive.flows.asks import Ask, CancelAsk, EndAsk, ItemAsk, PatchAsk, TimerAsk
from redrive.flows.driver import Driver
from redrive.flows.events import (
    COMMANDS,
    AnyEvent,
    AttemptFailed,
    CancelRequested,
    FlowCancelled,
    FlowCompleted,
    FlowFailed,
    ItemAdded,
    ItemCancelled,
    ItemCompleted,
    ItemGaveUp,
    PatchMarked,
    Redriven,
    TimerFired,
    TimerSet,
    is_activation,
)
from redrive.flows.failed_item import error_of
from redrive.flows.history import FlowHistory, Line, without_undone
from redrive.flows.registry import UnknownDefinition, action_named
from redrive.flows.values import NotReadable


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


def replay(lines: list[Line], driver: Driver, history: FlowHistory, started_at: float) -> list[Ask]:
    """Feed the log to the driver and fold it into the history. Answers what is asked for and not in the log yet."""
    lines = without_undone(lines)
    patches = {line.event.patch for line in lines if isinstance(line.event, PatchMarked)}
    # From the earliest line that a redrive answers anew, the code may ask for other things than it did.
    since = min((line.event.since for line in lines if isinstance(line.event, Redriven)), default=math.inf)
    driver.replay(patches)
    turns = _turns(lines)
    open_asks: list[Ask] = []
    first = next(turns)
    for line in first:
        history.apply(line.at, line.event)
    _match(driver.start(started_at), first, driver, open_asks, lenient=since <= 0)
    for turn in turns:
        seq, at, event = turn[0]
        for line in turn:
            history.apply(line.at, line.event)
        if isinstance(event, Redriven):
            open_asks = _match_again(open_asks, turn, driver)
            continue
        asks = _activate(driver, history, event, at)
        _match(asks, turn, driver, open_asks, lenient=since <= seq)
    driver.replay(None)
    return open_asks


def _turns(lines: list[Line]) -> Iterator[list[Line]]:
    """The log, cut where the flow's code was given a turn; the first piece is what it asked for at its start."""
    piece: list[Line] = []
    for line in lines:
        if is_activation(line.event) or isinstance(line.event, Redriven):
            yield piece
            piece = []
        piece.append(line)
    yield piece


def _activate(driver: Driver, history: FlowHistory, event: AnyEvent, at: float) -> list[Ask]:
    if isinstance(event, ItemCompleted):
        return driver.completed(event.item, bytes(event.result).decode(), at)
    if isinstance(event, AttemptFailed | ItemGaveUp):
        return driver.failed(event.item, error_of(history.items[event.item], event), at)
    if isinstance(event, TimerFired):
        return driver.fired(event.timer, at)
    assert isinstance(event, CancelRequested)  # noqa: S101 - the last activation there is
    return driver.cancel(at)


def _match(asks: list[Ask], turn: list[Line], driver: Driver, open_asks: list[Ask], lenient: bool) -> None:
    commands = [line for line in turn if isinstance(line.event, COMMANDS)]
    for index, ask in enumerate(asks):
        line = commands[index] if index < len(commands) else None
        if line is not None and _same(ask, line.event):
            _bind(ask, line.event, driver)
        elif lenient:
            open_asks.extend(asks[index:])
            return
        else:
            seq = line.seq if line else (turn[-1].seq if turn else 0)
            logged = _in_words(line.event) if line else "nothing more was asked for"
            raise NonDeterminism(seq, logged, _ask_in_words(ask), _where(ask))
    if len(commands) > len(asks) and not lenient:
        line = commands[len(asks)]
        raise NonDeterminism(line.seq, _in_words(line.event), "nothing is asked for here", "")


def _match_again(open_asks: list[Ask], turn: list[Line], driver: Driver) -> list[Ask]:
    """What was asked for anew since a redrive stands right behind it in the log."""
    commands = [line for line in turn if isinstance(line.event, COMMANDS)]
    for ask, line in zip(open_asks, commands, strict=False):
        if not _same(ask, line.event):
            raise NonDeterminism(line.seq, _in_words(line.event), _ask_in_words(ask), _where(ask))
        _bind(ask, line.event, driver)
    return open_asks[len(commands) :]


def _bind(ask: Ask, command: Any, driver: Driver) -> None:
    if isinstance(ask, ItemAsk):
        driver.bind_item(ask, command.item)
    elif isinstance(ask, TimerAsk):
        driver.bind_timer(ask, command.timer)


def _same(ask: Ask, command: AnyEvent) -> bool:
    if isinstance(ask, ItemAsk):
        return (
            isinstance(command, ItemAdded)
            and command.step == ask.step
            and (bytes(command.args).decode() == ask.args or _reads_the_same(ask, command.args))
        )
    if isinstance(ask, TimerAsk):
        return isinstance(command, TimerSet) and abs(command.until - ask.time) < 1e-3
    if isinstance(ask, CancelAsk):
        return isinstance(command, ItemCancelled) and command.item == ask.ask.item
    if isinstance(ask, PatchAsk):
        return isinstance(command, PatchMarked) and command.patch == ask.name
    if ask.how == "completed":
        return isinstance(command, FlowCompleted)
    return isinstance(command, FlowFailed if ask.how == "failed" else FlowCancelled)


def _reads_the_same(ask: ItemAsk, logged: msgspec.Raw) -> bool:
    """Whether the logged arguments only lack what the code has since given a default."""
    try:
        signature = action_named(ask.step).signature
        return signature.bind((), signature.read_arguments(bytes(logged).decode())).encoded == ask.args
    except (UnknownDefinition, NotReadable, TypeError):
        return False


def _in_words(command: AnyEvent) -> str:
    if isinstance(command, ItemAdded):
        return f"action {command.step}({_shortened(bytes(command.args).decode())})"
    if isinstance(command, TimerSet):
        return f"a timer until {command.until:.3f}"
    if isinstance(command, ItemCancelled):
        return f"item {command.item} is no longer waited for"
    if isinstance(command, PatchMarked):
        return f'patched("{command.patch}")'
    if isinstance(command, FlowCompleted):
        return "the end of run"
    return "run failed" if isinstance(command, FlowFailed) else "run was cancelled"


def _ask_in_words(ask: Ask) -> str:
    if isinstance(ask, ItemAsk):
        return f"action {ask.step}({_shortened(ask.args)})"
    if isinstance(ask, TimerAsk):
        return f"a timer until {ask.time:.3f}"
    if isinstance(ask, CancelAsk):
        return f"item {ask.ask.item} is no longer waited for"
    if isinstance(ask, PatchAsk):
        return f'patched("{ask.name}")'
    if ask.how == "failed":
        return f"run failed with {type(ask.error).__name__}: {ask.error}"
    return "the end of run" if ask.how == "completed" else "run was cancelled"


def _where(ask: Ask) -> str:
    if isinstance(ask, EndAsk):
        trace = ask.error.__traceback__ if ask.error is not None else None
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    return "" if isinstance(ask, CancelAsk) else ask.where


def _shortened(text: str) -> str:
    return redact(text.strip("{}"), 120)
