"""Format the parts of an explanation as lines of text: what it waits for, the timeline, what to do."""

from collections import Counter
from collections.abc import Iterator
from datetime import date

from redrive.errors import AttemptLostError
from redrive.explain.parts import (
    Advice,
    AttemptSummary,
    Entry,
    HeldBack,
    ItemEntry,
    Moment,
    Note,
    TimerEntry,
    Wait,
)
from redrive.explain.policy_text import describe_policy
from redrive.failures.matching import lineage
from redrive.formatting.text import format_attempt_number, format_error
from redrive.formatting.times import format_duration

# How many entries of one kind, and attempts of one item, are shown at each end; the rest are counted.
SHOWN_AT_ENDS = 10
MOST_WAITS = 10
TEXT_AT = 26
"""The column where the text of a timeline line begins, after its times."""
COMMAND = "      redrive "

_POLICY_SOURCES = {
    "default": "default policy",
    "queue": "default policy of the queue",
    "definition": "default policy of the definition",
    "operator": "policy set by hand",
}

_WORKER_GONE = lineage(AttemptLostError)[0]

_HOW = {
    "failed": "failed after {took}",
    "timed out": "timed out after {took}",
    "completed": "completed after {took}",
    "returned": "returned after {took}, not counted",
    "cancelled": "cancelled after {took}",
    "cancelled the flow": "cancelled the flow after {took}",
    "abandoned": "abandoned, the flow ended",
    "running": "is running",
    "accepted": "was accepted, and its outcome will be reported",
    "left behind": "was left behind: its worker does not respond; the one that takes the flow over counts it as lost",
}


def wait_lines(waits: list[Wait]) -> Iterator[str]:
    if not waits:
        return
    yield ""
    yield "Waits for"
    for wait in waits[:MOST_WAITS]:
        until = "" if wait.until is None else f", {wait.until.at:%Y-%m-%d %H:%M:%S} UTC at the latest"
        if wait.until is not None and not (wait.signals or wait.what.startswith("the end")):
            until = f" at {wait.until.at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"  {wait.what}{until}{f'; {wait.why}' if wait.why else ''}"
    if len(waits) > MOST_WAITS:
        yield f"  … and {len(waits) - MOST_WAITS} more"


def advice_lines(next_steps: list[Advice], options: str) -> Iterator[str]:
    if not next_steps:
        return
    yield ""
    yield "What to do"
    for advice in next_steps:
        yield f"  {advice.text}{':' if advice.command else ''}"
        if advice.command:
            yield f"{COMMAND}{advice.command.removeprefix('redrive ')}{options}"


class TimelineText:
    def __init__(self, everything: bool, ended: bool) -> None:
        self._everything = everything
        self._ended = ended
        self._day: date | None = None

    def lines(self, entries: list[Entry]) -> Iterator[str]:
        if not entries:
            return
        yield ""
        redriven = any(isinstance(entry, Note) and entry.what == "redriven" for entry in entries)
        order = "; by step, each with all its attempts, those after a redrive too" if redriven else ""
        yield f"Timeline (UTC, and since it began{order})"
        left_out = self._left_out(entries)
        skipped = Counter[str]()
        for index, entry in enumerate(entries):
            if index in left_out:
                skipped[left_out[index]] += 1
                continue
            yield from _skipped(skipped)
            yield from self._entry(entry)
        yield from _skipped(skipped)

    def _left_out(self, entries: list[Entry]) -> dict[int, str]:
        """Map the index of each entry that is left out to its kind."""
        kinds: dict[str, list[int]] = {}
        if not self._everything:
            for index, entry in enumerate(entries):
                kinds.setdefault(self._kind(entry), []).append(index)
        # Every item that failed for good is shown.
        kinds.pop("failed", None)
        return {
            index: kind
            for kind, alike in kinds.items()
            if len(alike) > 2 * SHOWN_AT_ENDS + 1
            for index in alike[SHOWN_AT_ENDS:-SHOWN_AT_ENDS]
        }

    def _kind(self, entry: Entry) -> str:
        if entry.rewound:
            return "rewound by a redrive"
        if isinstance(entry, Note):
            return entry.what.replace("_", " ")
        if isinstance(entry, TimerEntry):
            return "that succeeded" if self._ended or entry.fired is not None else "not fired"
        if entry.state != "completed":
            return entry.state
        again = any(attempt.number > 1 for attempt in entry.attempts)
        return "that took more than one attempt" if again else "that succeeded"

    def _entry(self, entry: Entry) -> Iterator[str]:
        if isinstance(entry, ItemEntry):
            yield from self._item(entry)
        elif isinstance(entry, TimerEntry):
            yield from self._timer(entry)
        else:
            yield from self._note(entry)

    def _item(self, item: ItemEntry) -> Iterator[str]:
        rewound = " (rewound by a redrive)" if item.rewound else ""
        (only,) = item.attempts if len(item.attempts) == 1 else (None,)
        if only is not None and only.outcome == "completed" and only.began.at == item.added.at:
            took = format_duration(only.seconds or 0.0)
            yield from self._at(
                item.added, f"{item.number}. {item.step}({item.arguments}) completed in {took}: {item.result}{rewound}"
            )
            return
        yield from self._at(item.added, f"{item.number}. {item.step}({item.arguments}){rewound}")
        if item.policy_from and any(attempt.decision is not None for attempt in item.attempts):
            yield _under(_policy(item))
        attempts = item.attempts
        yield from self._story(item)
        if item.missed_retry is not None:
            missed = item.missed_retry
            yield _under(f"the retry that was due was not made: gave up ({missed.kind}): {missed.why}")
        if not attempts and item.state != "queued":
            yield _under(f"{item.state} before its first attempt")
        elif item.state == "cancelled" and attempts[-1].outcome not in ("cancelled", "cancelled the flow"):
            yield _under("cancelled: the flow's code no longer waited for it")
        elif item.state == "abandoned" and attempts[-1].outcome != "abandoned":
            yield _under("abandoned: the flow ended")

    def _story(self, item: ItemEntry) -> Iterator[str]:
        """Its attempts, and when it was held back, in the order in which they began."""
        story: list[AttemptSummary | HeldBack] = [*item.held_back, *item.attempts]
        story.sort(key=_began)
        too_many = not self._everything and len(story) > 2 * SHOWN_AT_ENDS + 1
        last: AttemptSummary | None = None
        for index, one in enumerate(story):
            before = None if last is None else last.decision
            if isinstance(one, AttemptSummary):
                last = one
            if too_many and SHOWN_AT_ENDS <= index < len(story) - SHOWN_AT_ENDS:
                if index == SHOWN_AT_ENDS:
                    yield _gap(f"{_left_out(story[SHOWN_AT_ENDS:-SHOWN_AT_ENDS])}; --all shows them")
            elif isinstance(one, AttemptSummary):
                yield from self._attempt(item, one, before is not None and before.answer == "give up")
            else:
                why = f": {one.why}" if one.why else ""
                until = _clock(one.until, one.when)
                yield from self._at(one.when, f"   held back until {until}, no attempt is spent{why}")

    def _attempt(self, item: ItemEntry, attempt: AttemptSummary, redriven: bool) -> Iterator[str]:
        decision = attempt.decision
        number = str(attempt.number)
        if decision is not None:
            number = format_attempt_number(attempt.number, decision.because.attempt, decision.because.attempts)
        if redriven:
            number += ", redriven,"
        if attempt.outcome == "lost" and attempt.ended is not None:
            noticed = format_duration(attempt.ended.after - attempt.began.after)
            if attempt.error_type == _WORKER_GONE:
                how = f"was lost with its worker, which was noticed {noticed} after it began"
            else:
                how = f"was lost {noticed} after it began: {format_error(attempt.error_type, attempt.message)}"
        else:
            how = _HOW[attempt.outcome].format(took=format_duration(attempt.seconds or 0.0))
        if attempt.outcome == "completed":
            how += f": {item.result}"
        elif attempt.outcome in ("failed", "timed out"):
            status = f" (HTTP {attempt.status})" if attempt.status is not None else ""
            how += f": {format_error(attempt.error_type, attempt.message)}{status}"
        elif attempt.outcome == "running" and attempt.timeout is not None:
            how += f", until {_clock(attempt.timeout, attempt.began)} at the latest"
        yield from self._at(attempt.began, f"   attempt {number} {how}")
        if attempt.outcome == "returned" and attempt.next is not None:
            yield _under(f"{attempt.reason}; again at {_clock(attempt.next, attempt.began)}")
        elif attempt.category is not None:
            yield _under(f"{attempt.category}: {attempt.reason}")
        if decision is None:
            return
        if decision.answer == "give up":
            yield _under(f"gave up ({decision.kind}): {decision.why}")
        elif decision.next is not None:
            wait, at = format_duration(decision.wait or 0.0), _clock(decision.next, attempt.began)
            yield _under(f"retry in {wait}, at {at}: {decision.why}")

    def _timer(self, timer: TimerEntry) -> Iterator[str]:
        lasts = format_duration(timer.until.after - timer.set.after)
        if timer.fired is None:
            open_or_not = "cancelled" if self._ended else "has not fired"
            fired = "rewound by a redrive" if timer.rewound else open_or_not
        else:
            late = timer.fired.after - timer.until.after
            fired = "fired" if late < 1.0 else f"fired {format_duration(late)} late"
        yield from self._at(
            timer.set, f"timer {timer.number}: {lasts}, until {_clock(timer.until, timer.set)}; {fired}"
        )

    def _note(self, note: Note) -> Iterator[str]:
        by = f" by {note.by}" if note.by else ""
        why = f" ({note.why})" if note.why else ""
        detail = f": {note.detail}" if note.detail else ""
        rewound = " (rewound by a redrive)" if note.rewound else ""
        yield from self._at(note.when, f"{note.text}{by}{why}{detail}{rewound}")

    def _at(self, moment: Moment, text: str) -> Iterator[str]:
        day = moment.at.date()
        if day != self._day:
            self._day = day
            yield f"  {day}"
        yield f"  {_clock_time(moment)}  {'+' + format_duration(moment.after):<9} {text}"


def _began(one: AttemptSummary | HeldBack) -> float:
    return one.began.after if isinstance(one, AttemptSummary) else one.when.after


def _left_out(story: list[AttemptSummary | HeldBack]) -> str:
    attempts = sum(isinstance(one, AttemptSummary) for one in story)
    holds = len(story) - attempts
    counts = [f"{attempts} more attempts"] if attempts else []
    return ", ".join([*counts, f"held back {holds} more times"] if holds else counts)


def _clock_time(moment: Moment) -> str:
    return f"{moment.at:%H:%M:%S}.{moment.at.microsecond // 1000:03}"


def _clock(moment: Moment, seen: Moment) -> str:
    """Format a time of day, with the date if it differs from that of the line."""
    day = moment.at.date()
    return _clock_time(moment) if day == seen.at.date() else f"{day} {_clock_time(moment)}"


def _policy(item: ItemEntry) -> str:
    source = _POLICY_SOURCES.get(item.policy_from) or f"policy of the {item.policy_from}"
    return f"{source}: {describe_policy(item.policy)}"


def _under(text: str) -> str:
    return f"{'':{TEXT_AT + 5}}{text}"


def _gap(text: str) -> str:
    return f"{'':{TEXT_AT}}… {text} …"


def _skipped(kinds: Counter[str]) -> Iterator[str]:
    if kinds:
        yield _gap(f"{', '.join(f'{count} {kind}' for kind, count in kinds.items())}; --all shows them")
        kinds.clear()
