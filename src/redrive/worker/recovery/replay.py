"""Bring a flow to where its log ends, and go on from there."""

import logging
from collections.abc import Collection, Iterator, Sequence

import msgspec

from redrive.errors import (
    CrashLoopError,
    DeserializationError,
    NondeterminismError,
    TypeHintError,
    UnknownDefinitionError,
)
from redrive.flows.asks import EndAsk
from redrive.flows.events import COMMANDS, FlowBegan, FlowParked, ItemDeferred, Redriven, Resumed
from redrive.flows.history import FlowHistory, Item, Line, fold, folding
from redrive.flows.messages import ByHand, Cancel, Redrive, Resume
from redrive.flows.registry import unknown_actions
from redrive.flows.replay import last_word, replay
from redrive.stores.records import FINISHED, EventRow, FlowStatus, HeartbeatRow, Message
from redrive.worker.attempt_outcomes import lost_attempt
from redrive.worker.flow_run import FlowRun
from redrive.worker.inbox import (
    cancelled_without_code,
    deliver,
    end_without_code,
    obey_pause,
    take_out,
)
from redrive.worker.log_lines import items_named_in, reading_lines
from redrive.worker.manual_resolution import Outcome, outcomes_in, redriven, settle
from redrive.worker.redrive import reopen, undo_failures

log = logging.getLogger("redrive")


def going_on(
    run: FlowRun,
    rows: list[EventRow],
    heartbeats: list[HeartbeatRow],
    mail: list[Message],
    under_way: Collection[int] = (),
    crash_loop: CrashLoopError | None = None,
) -> Iterator[None]:
    """Bring a flow to where its log ends, then do what is due.

    In pieces: a long log takes long to replay, and until it is, nobody may speak to the flow. `under_way`: items whose
    attempts run in this worker. `crash_loop`: why none of its code is to run any more; the flow fails.
    """
    if rows:
        run.seq, run.last_at = rows[-1].seq, rows[-1].at
    try:
        lines = yield from reading_lines(rows)
    except DeserializationError as error:
        cannot_go_on(run, [], str(error), mail)
        if run.history.ending is not None:
            for number in items_named_in(rows):
                run.desk.journal.drop_retry(run.id, number)
        return
    before = yield from folding(lines)
    if before.ending is None and cancelled_without_code(run, before, _has_begun(lines), mail):
        return
    missing = unknown_actions(run.driver.needs())
    if missing and (before.ending is None or mail):
        run.desk.hand_on(run, missing, bool(mail))
        return
    logged = run.seq
    if before.ending is not None and not (yield from reopen(run, lines, before.items, mail)):
        _give_back(run, before.ending, before.ended_at)
        return
    yield from undo_failures(run, lines, mail)
    if crash_loop is not None:
        run.history = fold(lines)
        run.know_rows()
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
    told, is_redriven = before, _is_redriven(lines)
    if is_redriven:
        before = yield from folding(_before_redrives(lines))
    if run.seq != logged:
        told = yield from folding(lines)
    try:
        open_asks = yield from replay(lines, run.driver, run.history, _began_at(lines))
    except (NondeterminismError, UnknownDefinitionError, TypeHintError) as error:
        cannot_go_on(run, lines, str(error), mail)
        return
    except DeserializationError as error:
        # Unread, it would have the flow taken up again at once.
        words = [take_out(run, message) for message in mail]
        for one in words:
            if isinstance(one, Cancel):
                end_without_code(run, fold(lines), one)
                return
        for one in [one for one in words if isinstance(one, ByHand)]:
            log.error("flow %s fails, and a message to it is dropped: %s", run.id, type(one).__name__)
        run.history = fold(lines)
        run.know_rows()
        run.take([EndAsk("failed", error=error)], run.last_at)
        return
    for beat in heartbeats:
        item = run.history.items.get(beat.item)
        # One of an earlier attempt is older than what the log has of that attempt's end.
        if item is not None and item.state == "running" and beat.at >= item.attempt_began:
            item.details = msgspec.Raw(beat.details.encode())
    run.know_rows()
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
    if is_redriven or told.parked is not None:
        # What is undone took them from the retry queue, or had them wait longer.
        for item in [item for item in run.history.items.values() if item.state == "waiting"]:
            run.show_retry(item)
    obey_pause(run, mail)
    _tell_revived(run, told)
    run.take(open_asks, run.time())
    _count_lost(run, lost, before)
    run.take_up()
    for said in outcomes_in(lines, run.history):
        settle(run, said, run.time(), from_log=True)
    for message in mail:
        if not run.released:
            deliver(run, message)
    run.ring()


def _has_begun(lines: list[Line]) -> bool:
    return any(isinstance(line.event, (*COMMANDS, FlowBegan, Redriven)) for line in lines)


def _began_at(lines: list[Line]) -> float:
    return next((line.at for line in lines if isinstance(line.event, (*COMMANDS, FlowBegan))), lines[0].at)


def _is_redriven(lines: list[Line]) -> bool:
    """Whether what a redrive asks for is still to be carried out."""
    last = last_word(lines)
    return last is not None and isinstance(last.event, Redriven)


def _before_redrives(lines: list[Line]) -> list[Line]:
    """The log as it was when the redrives at its end were asked for."""
    end = len(lines)
    while end and isinstance(lines[end - 1].event, Redriven | FlowParked | Resumed):
        end -= 1
    return lines[:end]


def _tell_revived(run: FlowRun, told: FlowHistory) -> None:
    """Items that the flow's code had cancelled, and now has not: only the code knows, and the log must."""
    for item in run.history.items.values():
        if item.state == "waiting" and item.retry_at is not None and told.items[item.number].state == "cancelled":
            reason = "what had it cancelled was undone"
            run.log(run.time(), ItemDeferred(item=item.number, until=item.retry_at, reason=reason))


def _count_lost(run: FlowRun, lost: list[Item], before: FlowHistory) -> None:
    """Attempts that were under way when the last owner was lost: they count, and nobody knows how they ended.

    Not those that the flow's code had stopped `before` a redrive undid that.
    """
    for item in lost:
        if item.state == "running" and not run.released:
            at = run.time()
            run.active -= 1
            if before.items[item.number].state == "cancelled":
                run.returned(item, at, at, "what had stopped it was undone")
            else:
                error, failure = lost_attempt("")
                run.decide(item, error, failure, at)


def cannot_go_on(run: FlowRun, lines: list[Line], problem: str, mail: Sequence[Message]) -> None:
    """Park the flow, or end it where the mail says so. The mail is read: it would wake the flow again and again."""
    parked = fold(lines)
    run.history.parked = parked.parked
    for message in mail:
        said = take_out(run, message)
        if isinstance(said, Cancel):
            run.driver.discard()
            end_without_code(run, parked, said)
            return
        if isinstance(said, Resume | Redrive):
            # Who tried is told, though it was in vain.
            run.log(run.time(), Resumed(by=said.by, why=said.why))
        elif isinstance(said, ByHand) and said.item in parked.items and parked.items[said.item].is_open:
            # Carried out once the flow goes on, which a redrive before it may wait for, too.
            last = last_word(lines)
            since = last.event.since if last is not None and isinstance(last.event, Redriven) else run.seq + 1
            at, event = run.time(), redriven(said, said.item, since, midway=True)
            run.write(at, event)
            parked.apply(at, event)
            if isinstance(said, Outcome):
                run.desk.journal.drop_retry(run.id, said.item)
            else:
                run.show_retry(parked.items[said.item])
        elif said is not None:
            log.error("flow %s cannot go on, and a message to it is dropped: %s", run.id, type(said).__name__)
    run.park(problem)


def _give_back(run: FlowRun, ending: object, ended_at: float | None) -> None:
    """It had ended already: leave it as it was."""
    name = type(ending).__name__.removeprefix("Flow").lower()
    status: FlowStatus = next(one for one in FINISHED if one == name)
    run.release(status, None, ended_at)
