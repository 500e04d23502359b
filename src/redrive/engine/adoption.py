"""Bring a flow to where its log ends, and go on from there."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from redrive.engine.flow_run import FlowRun
from redrive.engine.log_lines import lines_of
from redrive.engine.mailroom import cancelled_without_code, deliver, obey_pause, read, settle_by_hand, take_out
from redrive.engine.outcomes import lost_attempt
from redrive.failures.signals import CrashLoop
from redrive.flows.asks import EndAsk
from redrive.flows.events import (
    COMMANDS,
    AnyEvent,
    AttemptFailed,
    FlowBegan,
    FlowFailed,
    ItemGaveUp,
    Redriven,
    Resumed,
    is_activation,
)
from redrive.flows.history import Item, Line, fold, without_undone
from redrive.flows.messages import ByHand, Cancel, CompleteItem, Redrive, ResetItem, ResolveItem, Resume
from redrive.flows.registry import GRAPH, UnknownDefinition, unknown_actions
from redrive.flows.replay import NonDeterminism, replay
from redrive.flows.values import NotReadable
from redrive.retry.decision import GiveUp
from redrive.stores.records import FINISHED, EventRow, FlowStatus, HeartbeatRow, Message


def may_be_reopened(event: AnyEvent) -> bool:
    """Not where what had succeeded was undone."""
    return isinstance(event, FlowFailed) and event.kind != "compensated"


def go_on(
    run: FlowRun,
    rows: list[EventRow],
    heartbeats: list[HeartbeatRow],
    mail: list[Message],
    under_way: Collection[int] = (),
) -> None:
    """Bring a flow to where its log ends, then do what is due. `under_way`: items whose attempts run in this worker."""
    for _ in going_on(run, rows, heartbeats, mail, under_way):
        pass


def going_on(
    run: FlowRun,
    rows: list[EventRow],
    heartbeats: list[HeartbeatRow],
    mail: list[Message],
    under_way: Collection[int] = (),
    crash_loop: CrashLoop | None = None,
) -> Iterator[None]:
    """The same in pieces: a long log takes long to replay, and until it is, nobody may speak to the flow.

    `crash_loop`: why none of its code is to run any more; the flow fails.
    """
    try:
        lines = lines_of(rows)
    except NotReadable as error:
        run.seq, run.last_at = rows[-1].seq, rows[-1].at
        # What it has not read would wake it again and again.
        _cannot_go_on(run, [], str(error), mail)
        return
    if lines:
        run.seq, run.last_at = lines[-1].seq, lines[-1].at
    before = fold(lines)
    if before.ending is None and cancelled_without_code(run, before, _has_begun(lines), mail):
        return
    missing = unknown_actions(run.driver.needs())
    if missing and (before.ending is None or mail):
        run.desk.hand_on(run, missing, bool(mail))
        return
    by_hand: list[CompleteItem | ResolveItem] | None = None
    if before.ending is None:
        _undo_failures(run, lines, mail)
    else:
        by_hand = _reopen(run, lines, mail)
        if by_hand is None:
            _give_back(run, before.ending, before.ended_at)
            return
    if crash_loop is not None:
        run.history = fold(lines)
        run.shown.update((item.number, None) for item in run.history.items.values() if item.retry_kind)
        run.take([EndAsk("failed", error=crash_loop, kind="poison")], run.time())
        return
    run.has_begun = _has_begun(lines)
    if not run.has_begun:
        for line in lines:
            run.history.apply(line.at, line.event)
        for message in mail:
            if not run.released:
                deliver(run, message)
        if not run.released and not run.has_begun:
            run.begin()
        return
    try:
        open_asks = yield from replay(lines, run.driver, run.history, _began_at(lines))
    except (NonDeterminism, UnknownDefinition) as error:
        _cannot_go_on(run, lines, str(error), mail)
        return
    except NotReadable as error:
        for message in mail:
            # Unread, it would have the flow taken up again at once.
            take_out(run, message)
        run.take([EndAsk("failed", error=error)], run.last_at)
        return
    for beat in heartbeats:
        item = run.history.items.get(beat.item)
        # One of an earlier attempt is older than what the log has of that attempt's end.
        if item is not None and item.state == "running" and beat.at >= item.attempt_began:
            item.details = msgspec.Raw(beat.details.encode())
    run.shown.update((item.number, None) for item in run.history.items.values() if item.retry_kind)
    running = [item for item in run.history.items.values() if item.state == "running"]
    lost = [item for item in running if not item.accepted and item.number not in under_way]
    run.active += len(lost)
    for item in running:
        if item.accepted:
            run.stays_in_lane(item)
            run.wait_for_callback(item)
        elif item.number in under_way:
            run.stays_in_lane(item)
            run.active += 1
    run.desk.under_way.stop_all_but(run.id, {item.number for item in running})
    if by_hand is not None:
        # The end of the flow took them from the retry queue.
        for item in [item for item in run.history.items.values() if item.state == "waiting"]:
            run.show_retry(item)
    obey_pause(run, mail)
    run.take(open_asks, run.time())
    _count_lost(run, lost)
    run.take_up()
    for said in by_hand or ():
        settle_by_hand(run, said, run.time())
    for message in mail:
        if not run.released:
            deliver(run, message)
    run.ring()


def _has_begun(lines: list[Line]) -> bool:
    return any(isinstance(line.event, (*COMMANDS, FlowBegan, Redriven)) for line in lines)


def _began_at(lines: list[Line]) -> float:
    return next((line.at for line in lines if isinstance(line.event, (*COMMANDS, FlowBegan))), lines[0].at)


def _count_lost(run: FlowRun, lost: list[Item]) -> None:
    """Attempts that were under way when the last owner was lost: they count, and nobody knows how they ended."""
    for item in lost:
        if item.state == "running" and not run.released:
            error, failure = lost_attempt("")
            run.active -= 1
            run.decide(item, error, failure, run.time())


def _reopen(run: FlowRun, lines: list[Line], mail: list[Message]) -> "list[CompleteItem | ResolveItem] | None":
    """Take up a failed flow again, where a message says so: the redrive is logged as the last line.

    Answers what is then to be settled by hand; None: it stays as it is.
    """
    for message in list(mail):
        said = read(message)
        failed = next((line for line in reversed(lines) if isinstance(line.event, FlowFailed)), None)
        if (
            isinstance(said, Redrive | ByHand)
            and failed is not None
            and isinstance(failed.event, FlowFailed)
            and may_be_reopened(failed.event)
        ):
            # Even if it is to be carried out later: the flow may fail again before, and must not come back for it.
            _take(run, mail, message)
            items: list[int | None] = [failed.event.item]
            if run.record.definition.startswith(GRAPH):
                # All that failed in a graph kept it from its goals, or will.
                items = [item.number for item in fold(lines).items.values() if item.state == "failed"] or items
            for item in items:
                # One may be there only because of another one's failure, and is then undone with that.
                if item is None or item in fold(lines).items:
                    _undo(run, lines, said, item, failed.seq)
            return [said] if isinstance(said, CompleteItem | ResolveItem) else []
        _take(run, mail, message)
    return None


def _take(run: FlowRun, mail: list[Message], message: Message) -> None:
    mail.remove(message)
    take_out(run, message)


def _undo_failures(run: FlowRun, lines: list[Line], mail: list[Message]) -> None:
    """In a flow that goes on, items that failed and that a message says to try again, or to settle by hand."""
    is_undone = any(item.undoes for item in fold(lines).items.values())
    for message in list(mail):
        said = read(message)
        # Folded each time: what is undone for one takes others along.
        item = fold(lines).items.get(said.item) if isinstance(said, ByHand) else None
        if item is not None and item.state == "failed":
            if is_undone:
                # It came while what had succeeded was being undone: to go on from there would be wrong.
                _take(run, mail, message)
                continue
            if isinstance(said, ResetItem):
                _take(run, mail, message)
            _undo(run, lines, said, item.number, run.seq + 1, midway=True)


def _undo(run: FlowRun, lines: list[Line], said: Any, item: int | None, failed: int, midway: bool = False) -> None:
    at = run.time()
    since = _failure_line(lines, item, failed)
    details = next((getattr(line.event, "details", UNSET) for line in lines if line.seq == since), UNSET)
    event = Redriven(by=said.by, why=said.why, item=item, since=since, details=details, midway=midway)
    run.write(at, event)
    lines.append(Line(run.seq, at, event))


def _failure_line(lines: list[Line], item: int | None, failed: int) -> int:
    """Where the log is answered anew: at the item's failure, or at the turn in which the flow's code failed."""
    for seq, _, event in reversed(without_undone(lines)):
        if seq >= failed:
            continue
        if item is None and is_activation(event):
            return seq
        if isinstance(event, AttemptFailed | ItemGaveUp) and event.item == item and isinstance(event.decision, GiveUp):
            return seq
    return 0


def _cannot_go_on(run: FlowRun, lines: list[Line], problem: str, mail: list[Message]) -> None:
    parked = fold(lines)
    run.history.parked = parked.parked
    for message in mail:
        said = take_out(run, message)
        if isinstance(said, Cancel):
            run.driver.discard()
            run.history.items.clear()
            run.take([EndAsk("cancelled")], run.time())
            return
        if isinstance(said, Resume | Redrive):
            # Who tried is told, though it was in vain.
            run.log(run.time(), Resumed(by=said.by, why=said.why))
    run.park(problem)


def _give_back(run: FlowRun, ending: object, ended_at: float | None) -> None:
    """It had ended already: leave it as it was."""
    name = type(ending).__name__.removeprefix("Flow").lower()
    status: FlowStatus = next(one for one in FINISHED if one == name)
    run.release(status, None, ended_at)
