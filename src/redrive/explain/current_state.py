"""Where a flow stands: the one thing to know, what it waits for, and what to do next."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redrive.errors import CrashLoopError
from redrive.explain.compensation_words import undone_in_words
from redrive.explain.explanation import Advice, AttemptStory, Entry, ItemStory, Moment, Note, TimerStory, Wait
from redrive.explain.words import attempt_of, error_line, span, summary, utc
from redrive.explain.worker_eligibility import WhoCan
from redrive.flows.events import FlowCancelled, FlowCompleted, FlowFailed
from redrive.flows.failed_item import report_on
from redrive.flows.history import FlowHistory
from redrive.flows.registry import BY_GOALS, GRAPH, SCRIPT
from redrive.stores.records import DeadLetter, FlowRecord, QueueRecord, WorkerRecord

# Timers that were due earlier than the flow's wake-up are no longer waited for; floats may differ in the last place.
_ROUNDING = 0.001
_PERHAPS = ", unless its code has cancelled it"


class Look(NamedTuple):
    headline: str
    waits_for: list[Wait]
    next_steps: list[Advice]


@dataclass(frozen=True)
class Looking:
    """What is known of a flow, and what that means for it now."""

    record: FlowRecord
    history: FlowHistory
    timeline: list[Entry]
    dead: DeadLetter | None
    workers: Sequence[WorkerRecord]
    """Those whose lease is valid."""
    queues: Sequence[QueueRecord]
    not_undone: Sequence[str]
    """The steps that were to be undone, and could not be."""
    done_for_failure: Sequence[str]
    """The steps that completed only because of the failure that ended it."""
    now: float
    began: float
    """The time that moments are counted from."""

    def look(self) -> Look:
        status = self.record.status
        if status == "completed":
            return self._completed()
        if status == "failed":
            return self._failed()
        if status == "cancelled":
            asked = self.history.cancel_requested
            at_once = " at once" if asked is not None and asked.force else ""
            ending = self.history.ending
            because = f": {summary(ending.why)}" if isinstance(ending, FlowCancelled) and ending.why else ""
            return Look(f"cancelled{at_once}{self._by('cancel_requested')}{because}", [], [])
        look = self._open()
        if self.history.cancel_requested is None:
            return look
        told = f"; its code was told to stop{self._by('cancel_requested')}, and goes on"
        return look._replace(headline=look.headline + told)

    def _open(self) -> Look:
        status = self.record.status
        if status == "paused":
            return Look(self._paused_in_words(), self._waits(), [self._resume("go on"), self._cancel()])
        if status == "parked":
            problem = summary(self.history.parked or "", 1000)
            mended = self._resume("once the code is mended and its workers run it, go on")
            return Look(f"parked: {problem}", list(self._unread()), [mended, self._cancel()])
        if status == "running":
            return self._running()
        return self._waiting()

    # How it ended

    def _completed(self) -> Look:
        took = span((self.record.finished_at or self.began) - self.began)
        items = self._items()
        # Those that did not count were followed by one of the same number.
        again = sum(any(attempt.number > 1 for attempt in item.attempts) for item in items)
        retried = f"; {again} of {_count(len(items), 'step')} took more than one attempt" if again else ""
        ending = self.history.ending
        result = f": {summary(bytes(ending.result).decode())}" if isinstance(ending, FlowCompleted) else ""
        return Look(f"completed in {took}{retried}{result}", [], [])

    def _failed(self) -> Look:
        ending = self.history.ending
        if not isinstance(ending, FlowFailed):
            return Look("failed for good", [], self._dead_end(None))
        error = error_line(ending.error.type, ending.error.message)
        item = self.history.items.get(ending.item) if ending.item is not None else None
        report = report_on(item) if item else None
        if item is not None:
            left = f"; could not be undone: {', '.join(self.not_undone)}" if self.not_undone else ""
            text = f"failed for good: {item.step} gave up after {_count(item.attempt, 'attempt')} ({ending.kind}{left})"
        elif _is_crash_loop(ending):
            text = "failed for good: it takes its workers down"
        elif ending.kind == "poison":
            text = f"failed for good: what {'it has stored' if self._items() else 'it was started with'} cannot be read"
        elif ending.kind == "graph":
            text = "failed for good: a step could not be begun"
        else:
            text = "failed for good in its own code"
        if self.dead is not None and self.dead.state == "discarded":
            text = f"{text}, and discarded{_signed(self.dead.by or '', self.dead.why or '')}"
        return Look(f"{text}: {error}", [], self._dead_end(report.next_step if report else None))

    def _dead_end(self, next_step: str | None) -> list[Advice]:
        if self.dead is not None and self.dead.state == "discarded":
            return []
        ending = self.history.ending
        discard = Advice("or settle it for good, as it is", f"redrive dead discard {self.record.id} --why WHY")
        if isinstance(ending, FlowFailed) and ending.kind == "compensated":
            undone = f"{undone_in_words(self.not_undone)}, so it cannot go on: mend the cause, and start another flow"
            by_hand = [Advice(f"put right by hand what could not be undone: {', '.join(self.not_undone)}")]
            return [*(by_hand if self.not_undone else ()), Advice(undone), discard]
        item = ending.item if isinstance(ending, FlowFailed) else None
        if item is None and (self._is_script or self._is_graph):
            return [self._start_anew(), discard]
        if next_step is None:
            next_step = "mend the workflow's code"
            if isinstance(ending, FlowFailed) and ending.kind == "poison" and not _is_crash_loop(ending):
                # With items it may be the result of one, which nobody can mend any more.
                given = "" if self._items() else "what it was started with, or "
                next_step = f"mend {given}the code that reads it"
        step = self.history.items[item].step if item is not None else ""
        again = (
            f"then put it back to work: {step} is tried again under the policy it began with, its limits counted anew"
            if step
            else "then put it back to work: its code is run again where it failed"
        )
        return [
            Advice(next_step),
            *self._done_meanwhile(),
            Advice(again, f"redrive dead redrive {self.record.id} --why WHY"),
            discard,
        ]

    def _done_meanwhile(self) -> Iterator[Advice]:
        if self.done_for_failure and not self._is_graph:
            yield Advice(
                f"what its code did because of the failure ({', '.join(self.done_for_failure)}) stays done, and a "
                "redrive goes on as if it had not been: where that undid the work before, start another flow instead"
            )

    def _start_anew(self) -> Advice:
        """Whatever of its own failed, a redrive would run again as it was."""
        name = self.record.definition.partition(":")[2]
        queue = "" if self.record.queue == "default" else f" --queue {self.record.queue}"
        if self._is_script:
            text = "it keeps the text it was started with, and would fail there again: correct the file, and start "
            return Advice(text + "another flow", f"redrive start {name}.rd --input JSON{queue}")
        text = "it keeps the plan and the inputs it was started with, and would fail there again: mend the cause, and "
        command = "" if name == BY_GOALS else f"redrive start {name}.yaml --input JSON{queue}"
        return Advice(text + "start another flow", command)

    # Where it is

    def _running(self) -> Look:
        waits = self._waits()
        owner = next((worker for worker in self.workers if worker.epoch == self.record.owner), None)
        if owner is None:
            text = "its worker is gone; another one takes it over once the lease has run out"
            return Look(text, waits, [] if self._who_can else self._no_worker())
        under_way = [item for item in self._items() if item.state == "running"]
        if not under_way and self._who_can.missing and self.record.mail > self.record.mail_read:
            # One that lacks them keeps it for a moment, because of its mail.
            return self._not_taken(waits)
        if under_way:
            attempt = under_way[0].attempts[-1]
            others = f", and {_count(len(under_way) - 1, 'other step')}" if len(under_way) > 1 else ""
            lasts = span(max(0.0, self.now - attempt.began.at.timestamp()))
            doing = f"attempt {attempt.number} of {_name(under_way[0])} has run for {lasts}{others}"
        elif sure := [wait for wait in waits if not wait.what.endswith(_PERHAPS)]:
            until = "" if sure[0].until is None else f" {self._in(sure[0].until.at.timestamp())}"
            doing = f"it waits for {sure[0].what}{until}"
        elif waits:
            doing = "it waits for one of its timers"
        else:
            doing = "its code runs"
        if self.history.paused:
            still = f"; on {owner.name} {doing}" if under_way else ""
            return Look(self._paused_in_words() + still, waits, [self._resume("go on"), self._cancel()])
        return Look(f"running on {owner.name}: {doing}", waits, [self._cancel()])

    def _waiting(self) -> Look:
        due = self.record.status == "ready" or (self.record.wake_at is not None and self.record.wake_at <= self.now)
        waits = self._waits()
        if due:
            return self._not_taken(waits)
        if self.record.wake_at is None:
            return Look("waiting for nothing that time brings", waits, [self._cancel()])
        if self.record.start_at > self.now and not self._items():
            start = Wait(what="its start", until=self._moment(self.record.start_at))
            waits = [start, *self._unread()]
            text = f"waiting for its start {self._in(self.record.start_at)}"
            if self._who_can.missing:
                return Look(f"{text}; and then {self._who_can.why_nobody()}", waits, self._no_worker())
            return Look(text, waits, [self._cancel()])
        soonest = next((wait for wait in waits if wait.until is not None), None)
        if soonest is None and self._who_can.missing:
            # Given back by one that lacks them.
            return self._not_taken(waits)
        what = soonest.what if soonest else "its wake-up"
        text = f"waiting for {what} {self._in(self.record.wake_at)}"
        if self._who_can:
            return Look(text, waits, [Advice("nothing: it goes on by itself"), self._cancel()])
        then = f"then {self._who_can.why_nobody()}" if self._who_can.missing else "no live worker can take it then"
        return Look(f"{text}; and {then}", waits, self._no_worker())

    def _not_taken(self, waits: list[Wait]) -> Look:
        redriven = self.dead is not None and self.dead.state == "redriven" and self.history.ending is not None
        begun = f"redriven{_signed(self.dead.by or '', self.dead.why or '')}, and " if self.dead and redriven else ""
        if not self._who_can:
            return Look(f"{begun}stuck: {self._who_can.why_nobody()}", waits, self._no_worker())
        queue = next((queue for queue in self.queues if queue.name == self.record.queue), None)
        if queue is not None and queue.limit is not None and queue.running >= queue.limit:
            text = f"queue {queue.name} is at its limit: {queue.running} of at most {queue.limit} flows run"
            return Look(f"{begun}ready, but {text}", waits, [Advice("nothing: it goes on when one of them ends")])
        since = span(max(0.0, self.now - max(self.record.start_at, self.record.wake_at or 0.0)))
        return Look(f"{begun}ready for {since}: a worker takes it next", waits, [])

    # Who can take it

    @functools.cached_property
    def _who_can(self) -> WhoCan:
        return WhoCan(self.record, self.workers)

    def _no_worker(self) -> list[Advice]:
        queue = "" if self.record.queue == "default" else f" --queue {self.record.queue}"
        kind, _, name = self.record.definition.partition(":")
        if not self._is_script and not self._who_can.missing:
            return [Advice(f"start a worker with the module that defines {name}", f"redrive worker MODULE{queue}")]
        modules = f"{name}.rd MODULE" if self._is_script else "MODULE..."
        text = f"start a worker with the {kind}, and with the modules that register its actions"
        advice = [Advice(text, f"redrive worker {modules}{queue}")]
        if self._who_can.missing:
            end = f"redrive flows cancel {self.record.id} --force --why WHY"
            advice.append(Advice("or end it without them, with nothing undone", end))
        return advice

    # What it waits for

    def _waits(self) -> list[Wait]:
        items = list(self._open_items())
        return sorted((*items, *self._open_timers(bool(items)), *self._unread()), key=_soonest)

    def _unread(self) -> Iterator[Wait]:
        unread = self.record.mail - self.record.mail_read
        if unread > 0:
            yield Wait(what=f"a worker to read {_count(unread, 'message')} (to cancel it, to resume it, or the like)")

    def _open_items(self) -> Iterator[Wait]:
        for item in self._items():
            last = item.attempts[-1] if item.attempts else None
            if item.state == "queued":
                yield Wait(what=f"a free place for {_name(item)}")
            elif item.state == "running" and last is not None and last.outcome == "accepted":
                yield Wait(what=f"word of how attempt {last.number} of {_name(item)} ended", until=last.timeout)
            elif item.state == "running" and last is not None and last.outcome == "left behind":
                yield Wait(what=f"a worker to take up {_name(item)}, whose attempt {last.number} was left behind")
            elif item.state == "running" and last is not None:
                yield Wait(what=f"the end of attempt {last.number} of {_name(item)}", until=last.timeout)
            elif item.state == "waiting":
                retry = self.history.items[item.number].retry_at
                until = None if retry is None else self._moment(retry)
                yield Wait(what=f"attempt {_next_attempt(last)} of {_name(item)}", until=until)

    def _open_timers(self, others: bool) -> Iterator[Wait]:
        """Which timers its code still awaits only the code knows, but those due before its wake-up it does not.

        The only thing that it can wait for it does wait for; `others`: whether there is more than timers.
        """
        wake_at = self.record.wake_at or 0.0
        since = max(self.now, wake_at - _ROUNDING)
        timers = [timer for timer in self.timeline if isinstance(timer, TimerStory) and not timer.undone]
        open_ones = [one for one in timers if one.fired is None and one.until.at.timestamp() >= since]
        for timer in open_ones:
            is_sure = timer.until.at.timestamp() <= wake_at + _ROUNDING or (len(open_ones) == 1 and not others)
            yield Wait(what=f"timer {timer.number}{'' if is_sure else _PERHAPS}", until=timer.until)

    def _items(self) -> list[ItemStory]:
        return [entry for entry in self.timeline if isinstance(entry, ItemStory) and not entry.undone]

    @property
    def _is_script(self) -> bool:
        return self.record.definition.startswith(SCRIPT)

    @property
    def _is_graph(self) -> bool:
        return self.record.definition.startswith(GRAPH)

    # Words

    def _moment(self, at: float) -> Moment:
        return Moment(utc(at), round(at - self.began, 6))

    def _in(self, at: float) -> str:
        return f"at {utc(at):%Y-%m-%d %H:%M:%S} UTC, in {span(at - self.now)}"

    def _by(self, what: str) -> str:
        notes = [note for note in self.timeline if isinstance(note, Note) and note.what == what]
        return _signed(notes[-1].by, notes[-1].why) if notes else ""

    def _paused_in_words(self) -> str:
        return f"paused{self._by('paused')}; no attempt begins until it is resumed"

    def _resume(self, text: str) -> Advice:
        return Advice(text, f"redrive flows resume {self.record.id} --why WHY")

    def _cancel(self) -> Advice:
        if self.history.cancel_requested is None:
            return Advice("to stop it", f"redrive flows cancel {self.record.id} --why WHY")
        text = "to end it at once, without its code and with nothing undone"
        return Advice(text, f"redrive flows cancel {self.record.id} --force --why WHY")


def _name(item: ItemStory) -> str:
    return f"{item.step} (item {item.number})"


def _next_attempt(last: AttemptStory | None) -> str:
    if last is None:
        # It was held back before its first.
        return "1"
    if last.outcome == "returned":
        return str(last.number)
    if last.decision is None or last.decision.answer != "retry":
        return str(last.number + 1)
    because = last.decision.because
    return attempt_of(last.number + 1, because.attempt + 1, because.attempts)


def _soonest(wait: Wait) -> float:
    return float("inf") if wait.until is None else wait.until.after


def _signed(by: str, why: str) -> str:
    who = f" by {summary(by, 100)}" if by else ""
    return f"{who} ({summary(why)})" if why else who


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _is_crash_loop(ending: FlowFailed) -> bool:
    return ending.error.type == f"{CrashLoopError.__module__}.{CrashLoopError.__qualname__}"
