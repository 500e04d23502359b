"""An explanation: what happened to a flow and why, what it waits for, and what to do next; as data and as text."""

import textwrap
from collections.abc import Iterator
from datetime import datetime

import msgspec

from redrive.explain.log_line import LifecycleLine
from redrive.explain.parts import Advice, Entry, Wait
from redrive.explain.text import COMMAND, TEXT_AT, TimelineText, advice_lines, wait_lines
from redrive.flows.schedules.schedule import TickOfFlow
from redrive.formatting.text import terminal_text
from redrive.formatting.times import format_duration
from redrive.stores.records import FlowStatus


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    flow_id: str
    definition: str
    status: FlowStatus
    headline: str
    """The one thing to know."""
    input: str
    """The flow's input: a summary, without secrets."""
    queue: str
    priority: int
    key: str | None
    explained_at: datetime
    created_at: datetime
    """When the flow was requested."""
    start_at: datetime
    """The earliest time at which it may begin."""
    began_at: datetime | None
    """When its log begins; `after` of every moment counts from here."""
    finished_at: datetime | None
    timeline: list[Entry]
    """In the order in which the entries began."""
    events: list[LifecycleLine]
    """The lifecycle of its work items as events: attempts that started, work that was not completed, retries."""
    waits_for: list[Wait]
    """The soonest first."""
    next_steps: list[Advice]
    begun_by: TickOfFlow | None = None
    """The tick of a schedule that began it; None when it was started in another way."""
    parent: str | None = None
    """The id of the flow that started it as a child."""
    run: int = 1
    """The number of the run; more than 1 after the flow's code continued as new."""
    current_run: int | None = None
    """The number of the flow's current run, where an earlier one is explained."""
    children: dict[FlowStatus, int] = {}
    """How many children it has, by status; at most 10,000 are counted."""
    batch: str | None = None
    """The batch that the flow is a part of."""
    tags: dict[str, str] = {}
    elided: int = 0
    """How many entries in the middle of the timeline are left out."""
    elided_events: int = 0
    """How many events in the middle are left out."""

    def __str__(self) -> str:
        """Return what `redrive explain` prints."""
        return explain_text(self)

    def __repr__(self) -> str:
        # Nothing of what the flow works with: a representation ends up in logs.
        return f"Explanation(flow_id={self.flow_id!r}, definition={self.definition!r}, status={self.status!r})"


def explain_text(
    explanation: Explanation, *, everything: bool = False, options: str = "", width: int | None = None
) -> str:
    """Format an explanation: the one thing to know first, then the timeline, then what to do.

    everything: show all of a long timeline.
    options: appended to each command that is proposed.
    width: fold lines to this many columns.
    """
    name = explanation.definition.partition(":")[2]
    lines = [
        f"{name}: {explanation.headline}",
        "",
        *_facts(explanation),
        *wait_lines(explanation.waits_for),
        *TimelineText(everything, explanation.finished_at is not None).lines(explanation.timeline),
        *advice_lines(explanation.next_steps, options),
    ]
    lines = [terminal_text(line) for line in lines]
    return "\n".join(lines if width is None else (_folded(line, width) for line in lines))


def _folded(line: str, width: int) -> str:
    if len(line) <= width or line.startswith(COMMAND):
        return line
    text = line.lstrip()
    # textwrap would drop an indent that leaves no room for the first word.
    indent = " " * min(len(line) - len(text), width // 2)
    continuation = " " * TEXT_AT if line[2:4].isdigit() else indent
    folded = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=continuation + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(folded)


def _facts(explanation: Explanation) -> Iterator[str]:
    yield f"  flow     {explanation.flow_id} ({explanation.definition}), {explanation.status}"
    yield f"  input    {explanation.input or 'none'}"
    key = "" if explanation.key is None else f", key {explanation.key}"
    priority = f", priority {explanation.priority}" if explanation.priority else ""
    yield f"  queue    {explanation.queue}{priority}{key}"
    if (tick := explanation.begun_by) is not None:
        yield f"  begun    by schedule {tick.schedule}, {'by hand at' if tick.by_hand else 'for its tick'} {tick.tick}"
    if explanation.run > 1:
        before = explanation.run - 1
        yield f"  run      {explanation.run}; of the run before: redrive explain {explanation.flow_id} --run {before}"
    if explanation.parent is not None:
        yield f"  parent   {explanation.parent}"
    if explanation.children:
        yield f"  children {', '.join(f'{count:,} {status}' for status, count in explanation.children.items())}"
    if explanation.batch is not None:
        yield f"  batch    {explanation.batch}"
    if explanation.tags:
        yield f"  tags     {', '.join(f'{name}={text}' for name, text in explanation.tags.items())}"
    yield f"  created  {explanation.created_at:%Y-%m-%d %H:%M:%S} UTC"
    if explanation.began_at is not None:
        later = format_duration((explanation.began_at - explanation.created_at).total_seconds())
        yield f"  began    {explanation.began_at:%Y-%m-%d %H:%M:%S} UTC, {later} later"
        if explanation.finished_at is not None:
            took = format_duration((explanation.finished_at - explanation.began_at).total_seconds())
            yield f"  ended    {explanation.finished_at:%Y-%m-%d %H:%M:%S} UTC, after {took}"
