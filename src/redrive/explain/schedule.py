"""Foresee a work item's attempts, up to the moment at which it would give up. Pure: the time is an argument."""

from collections.abc import Callable

from redrive.explain.flow_facts import FlowFacts
from redrive.explain.parts import FutureAttempt, ItemEntry, Moment, Schedule
from redrive.flows.item import Item
from redrive.policies.history import History
from redrive.policies.remaining import likely_failure, remaining

MOST_ATTEMPTS = 50
MOST_ITEMS = 10
"""Open items whose attempts are foreseen: of thousands, nobody reads them all."""


def add_schedules(facts: FlowFacts) -> None:
    """Add what lies ahead to the entries of open items."""
    if facts.record.finished_at is not None:
        return
    found = 0
    for entry in facts.items:
        item = facts.history.items.get(entry.number)
        if item is not None and item.is_open and found < MOST_ITEMS:
            entry.schedule = _schedule(entry, item, facts.now, facts.moment)
            found += 1


def _schedule(entry: ItemEntry, item: Item, now: float, moment: Callable[[float], Moment]) -> Schedule:
    running = item.state == "running"
    began = item.attempt_began if running else max(now, item.retry_at or now)
    history = item.retry_history or History(began)
    rule = item.failures[-1].event.decision.because.rule if item.failures else ""
    left = remaining(item.policy, history, likely_failure(item.policy, rule), began, now, running=running)
    first = item.attempt + 1
    return Schedule(
        attempts=[
            FutureAttempt(
                number=number,
                at=moment(one.earliest),
                latest=None if one.latest is None else moment(one.latest),
                timeout=one.timeout,
            )
            for number, one in enumerate(left.attempts[:MOST_ATTEMPTS], first)
        ],
        more=len(left.attempts) > MOST_ATTEMPTS,
        ends=left.ends,
        gives_up_after=None if left.ends == "unlimited" else item.attempt + len(left.attempts),
        gives_up_at=None if left.gives_up_at is None else moment(left.gives_up_at),
    )
