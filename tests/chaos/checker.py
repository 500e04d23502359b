"""Compare what was done outside with what the logs say: pure functions from a story to findings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.definitions import Kind, result_of
from tests.chaos.effects import Effect

from redrive.flows.events import ENDINGS, AttemptReturned, AttemptStarted, FlowFailed, ItemCompleted, ItemStarted, Line
from redrive.stores.records import FINISHED, FlowRecord

STOPPED = 0.5
"""Seconds: a process that stood for longer between its check and its call was stopped there, which nothing prevents."""
MOST_SHOWN = 5
"""Findings of one sort that are shown one by one."""


@dataclass
class FlowStory:
    record: FlowRecord
    lines: list[Line]
    result: Any = None


@dataclass
class Story:
    """All that a storm left behind."""

    effects: list[Effect]
    flows: dict[str, FlowStory]
    kinds: dict[int, Kind]
    """By the numbers of the flows that clients started."""
    started: dict[int, list[str]]
    """Number -> the ids that starts returned; two clients start a flow that has a key."""
    unknown_starts: int = 0
    """Starts without a key that ended with an unknown outcome: each may have added a flow."""
    cancelled: set[str] = field(default_factory=set)
    """Flows that someone asked to cancel."""
    leftovers: list[str] = field(default_factory=list)
    """Rows that should be gone once every flow has ended."""
    over_limit: list[str] = field(default_factory=list)
    lost_commits: bool = False
    """Whether the store lost commits that it had acknowledged: work of these is then done again."""


def check(story: Story) -> list[str]:
    """Return what is wrong, shortest first for each sort; nothing for a story as it should be."""
    findings: list[str] = []
    sorts = [
        _starts(story),
        _ends(story),
        _logs(story),
        _attempts(story),
        _repeated_work(story),
        _reports(story),
        _compensations(story),
        iter(f"left behind: {one}" for one in story.leftovers),
        iter(f"a limit was exceeded: {one}" for one in story.over_limit),
    ]
    for sort in sorts:
        found = list(sort)
        findings += found[:MOST_SHOWN]
        if len(found) > MOST_SHOWN:
            findings.append(f"... and {len(found) - MOST_SHOWN} more of this sort")
    return findings


def _starts(story: Story) -> Iterator[str]:
    """Every acknowledged start is there, once for each key, and nothing was added by a start that raised."""
    acknowledged = {flow for ids in story.started.values() for flow in ids}
    if not story.lost_commits:
        for number, ids in story.started.items():
            if len(set(ids)) != 1:
                yield f"number {number} was started as {len(set(ids))} flows: {ids}"
            for flow in set(ids) - story.flows.keys():
                yield f"flow {flow} (number {number}) was acknowledged and is gone"
    keys = Counter((one.record.definition, one.record.key) for one in story.flows.values() if one.record.key)
    for (definition, key), count in keys.items():
        if count > 1:
            yield f"{count} flows of {definition} have the key {key}"
    unasked = [flow for flow in story.flows if flow not in acknowledged]
    if len(unasked) > story.unknown_starts:
        yield (
            f"{len(unasked)} flows exist that no start returned, though only {story.unknown_starts} starts ended "
            f"with an unknown outcome: {unasked[:3]}"
        )


def _ends(story: Story) -> Iterator[str]:
    """Every flow settles with the right result."""
    for number, flow in _numbered(story):
        kind, record = story.kinds[number], flow.record
        if record.status not in FINISHED:
            yield f"stuck: {record} ({kind} {number}); last: {flow.lines[-1:]}"
        elif record.status == "cancelled":
            if record.id not in story.cancelled:
                yield f"flow {record.id} ({kind} {number}) was cancelled by nobody"
        elif record.status == "failed":
            end = flow.lines[-1].event
            if kind != "compensated" or not isinstance(end, FlowFailed) or end.kind != "compensated":
                yield f"an innocent dead letter: flow {record.id} ({kind} {number}): {end}"
        elif flow.result != result_of(kind, number):
            yield f"flow {record.id} ({kind} {number}) returned {flow.result!r} instead of {result_of(kind, number)!r}"


def _logs(story: Story) -> Iterator[str]:
    """Logs have no gap, no time that goes back, one end, and no attempt number twice."""
    for flow_id, flow in story.flows.items():
        seqs = [line.seq for line in flow.lines]
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"flow {flow_id} has a gap in its log: {seqs}"
        if any(later.at < earlier.at for earlier, later in zip(flow.lines, flow.lines[1:], strict=False)):
            yield f"flow {flow_id}: the times of its log go back"
        begun: dict[int, int] = {}
        for line in flow.lines:
            event = line.event
            if isinstance(event, ItemStarted):
                begun[event.item] = 1
            elif isinstance(event, AttemptStarted):
                if event.attempt != begun.get(event.item, 0) + 1:
                    yield f"flow {flow_id}, item {event.item}: attempt {event.attempt} after {begun.get(event.item)}"
                begun[event.item] = event.attempt
            elif isinstance(event, AttemptReturned):
                # It does not count: the next attempt has the same number, and a delivery token of its own.
                begun[event.item] = event.attempt - 1
        if flow.record.status in FINISHED and (not flow.lines or not isinstance(flow.lines[-1].event, ENDINGS)):
            yield f"flow {flow_id} has finished, and its log does not end: {flow.lines[-1:]}"


def _attempts(story: Story) -> Iterator[str]:
    """Every call was recorded before it was made, and made once."""
    recorded: set[tuple[str, str]] = set()
    returned: set[tuple[str, str]] = set()
    for flow_id, flow in story.flows.items():
        for event, delivery in _with_deliveries(flow.lines):
            if isinstance(event, ItemStarted | AttemptStarted):
                recorded.add((flow_id, delivery))
            elif isinstance(event, AttemptReturned):
                returned.add((flow_id, delivery))
    starts = [effect for effect in story.effects if effect.word == "start"]
    for delivery, count in Counter(effect.delivery for effect in starts).items():
        if count > 1:
            yield f"{count} calls were made with the delivery token {delivery}"
    receipts: dict[tuple[str, int], set[str]] = defaultdict(set)
    numbers: Counter[tuple[str, int, int]] = Counter()
    for effect in starts:
        receipts[effect.flow, effect.item].add(effect.receipt)
        if (effect.flow, effect.delivery) not in returned:
            numbers[effect.flow, effect.item, effect.attempt] += 1
        if not story.lost_commits and (effect.flow, effect.delivery) not in recorded:
            yield f"a call that no log has: {effect}"
    for item, tokens in receipts.items():
        if len(tokens) > 1:
            yield f"item {item} had several receipt tokens: {tokens}"
    if not story.lost_commits:
        for (flow_id, number, attempt), count in numbers.items():
            if count > 1:
                yield f"flow {flow_id}, item {number}: attempt {attempt} was made {count} times"


def _repeated_work(story: Story) -> Iterator[str]:
    """No recorded work ran again, and everything that is recorded was done."""
    positions: dict[tuple[str, int], list[tuple[int, Effect]]] = defaultdict(list)
    for position, effect in enumerate(story.effects):
        positions[effect.flow, effect.item].append((position, effect))
    for flow_id, flow in story.flows.items():
        for event, delivery in _with_deliveries(flow.lines):
            if not isinstance(event, ItemCompleted) or event.by:
                continue
            done = positions.get((flow_id, event.item), [])
            of_attempt = [
                place for place, effect in done if effect.delivery == delivery and effect.word in ("end", "reporting")
            ]
            if not of_attempt and not story.lost_commits:
                made = [(effect.word, effect.attempt) for _, effect in done]
                yield f"flow {flow_id}, item {event.item}: its result is recorded, and nobody made it: {made}"
                continue
            if story.lost_commits:
                continue
            again = [
                effect
                for place, effect in done
                if effect.word == "start"
                and effect.stood < STOPPED
                and (effect.attempt > event.attempt or place > min(of_attempt))
            ]
            for effect in again:
                yield f"recorded work ran again: item {event.item} completed by attempt {event.attempt}, then {effect}"
    for (flow_id, item), done in positions.items():
        order = [effect.attempt for _, effect in done if effect.word == "start" and effect.stood < STOPPED]
        if order != sorted(order) and not story.lost_commits:
            yield f"flow {flow_id}, item {item}: attempts were called out of order: {order}"


def _reports(story: Story) -> Iterator[str]:
    """A report that was acknowledged counts."""
    if story.lost_commits:
        return
    for effect in story.effects:
        flow = story.flows.get(effect.flow)
        if effect.word != "reported" or flow is None or effect.flow in story.cancelled:
            continue
        completed = [
            line.event.attempt
            for line in flow.lines
            if isinstance(line.event, ItemCompleted) and line.event.item == effect.item
        ]
        if effect.attempt not in completed:
            yield f"an acknowledged report did not count: {effect}; completed by {completed}"


def _compensations(story: Story) -> Iterator[str]:
    """What had succeeded was compensated, newest first."""
    ends: dict[str, list[str]] = defaultdict(list)
    for effect in story.effects:
        if effect.word == "end" and effect.step in ("refund", "release"):
            ends[effect.flow].append(effect.step)
    for number, flow in _numbered(story):
        if story.kinds[number] == "compensated" and flow.record.status == "failed":
            order = list(dict.fromkeys(ends[flow.record.id]))
            if order != ["refund", "release"]:
                yield f"flow {flow.record.id} ({number}) was compensated as {order}"


def _with_deliveries(lines: list[Line]) -> Iterator[tuple[Any, str]]:
    """Each event, with the delivery token of the attempt that its item was at; "" for others."""
    current: dict[int | None, str] = {}
    for line in lines:
        event = line.event
        item = getattr(event, "item", None)
        if isinstance(event, ItemStarted | AttemptStarted):
            current[item] = event.delivery
        yield event, current.get(item, "")


def _numbered(story: Story) -> Iterable[tuple[int, FlowStory]]:
    for number, ids in story.started.items():
        for flow_id in dict.fromkeys(ids):
            if flow_id in story.flows:
                yield number, story.flows[flow_id]
