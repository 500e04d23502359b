"""List what a flow waits for."""

from collections.abc import Iterator

from redrive.explain.children import open_children
from redrive.explain.flow_facts import FlowFacts
from redrive.explain.parts import AttemptSummary, ItemEntry, TimerEntry, Wait
from redrive.flows.next_tries import next_tries
from redrive.formatting.text import format_attempt_number, format_count, summarize

# Stored times are rounded to microseconds, so a timer and the wake-up that it set may differ slightly.
_ROUNDING = 0.001
_MAYBE_CANCELLED = ", unless its code has cancelled it"


def list_waits(facts: FlowFacts) -> list[Wait]:
    """List work items, signals, children, timers and unread messages, the soonest first."""
    items, signals = list(_open_items(facts)), list(awaited_signals(facts))
    timers = _open_timers(facts, bool(items or signals))
    limits = {wait.until.after for wait in signals if wait.until is not None}
    # What limits the wait for a signal is said there.
    others = [timer for timer in timers if timer.until is None or timer.until.after not in limits]
    return sorted((*items, *signals, *others, *open_children(facts), *unread_messages(facts)), key=_due)


def is_certain(wait: Wait) -> bool:
    """False for a timer that the flow's code may have cancelled."""
    return not wait.what.endswith(_MAYBE_CANCELLED)


def unread_messages(facts: FlowFacts) -> Iterator[Wait]:
    if facts.unread_messages:
        messages = format_count(facts.unread_messages, "message")
        yield Wait(what=f"a worker to read {messages} (a request to cancel, to resume, or the like)")


def awaited_signals(facts: FlowFacts) -> Iterator[Wait]:
    for wait in facts.history.messages.awaited:
        signals = " or ".join(repr(name) for name in wait.signals)
        if wait.where and not wait.is_receive:
            what = f"the condition at {wait.where}" + (f", which signal {signals} may make true" if signals else "")
        else:
            what = f"the signal {signals}"
        until = None if wait.until is None else facts.moment(wait.until)
        yield Wait(what=what, until=until, signals=wait.signals)


def name_item(item: ItemEntry) -> str:
    return f"{item.step} (item {item.number})"


def _open_items(facts: FlowFacts) -> Iterator[Wait]:
    tries = next_tries(facts.history.items.values(), facts.record.wake_at, facts.now)
    for item in facts.items:
        last = item.attempts[-1] if item.attempts else None
        if item.state == "queued":
            yield Wait(what=f"a free slot for {name_item(item)}")
        elif item.state == "running" and last is not None and last.outcome == "accepted":
            yield Wait(what=f"the outcome of attempt {last.number} of {name_item(item)}", until=last.timeout)
        elif item.state == "running" and last is not None and last.outcome == "left behind":
            yield Wait(what=f"a worker to take over {name_item(item)}, whose attempt {last.number} was left behind")
        elif item.state == "running" and last is not None:
            yield Wait(what=f"the end of attempt {last.number} of {name_item(item)}", until=last.timeout)
        elif item.state == "waiting":
            waiting = facts.history.items[item.number]
            retry_at, why = tries.get(item.number), summarize(waiting.deferred)
            until = None if retry_at is None else facts.moment(retry_at)
            yield Wait(what=f"attempt {_next_attempt(last, item)} of {name_item(item)}", until=until, why=why)


def _open_timers(facts: FlowFacts, has_open_items: bool) -> Iterator[Wait]:
    """List the timers that may still matter.

    The log does not say which timers the flow's code still awaits, but a timer due before the flow's wake-up is not
    awaited, and the only thing that a flow can wait for is.
    """
    wake_at = facts.record.wake_at or 0.0
    since = max(facts.now, wake_at - _ROUNDING)
    timers = [timer for timer in facts.timeline if isinstance(timer, TimerEntry) and not timer.rewound]
    pending = [timer for timer in timers if timer.fired is None and timer.until.at.timestamp() >= since]
    for timer in pending:
        certain = timer.until.at.timestamp() <= wake_at + _ROUNDING or (len(pending) == 1 and not has_open_items)
        yield Wait(what=f"timer {timer.number}{'' if certain else _MAYBE_CANCELLED}", until=timer.until)


def _next_attempt(last: AttemptSummary | None, item: ItemEntry) -> str:
    if last is None:
        # The item was held back before its first attempt.
        return "1"
    if last.outcome == "returned":
        return str(last.number)
    if last.decision is None or last.decision.answer != "retry":
        return str(last.number + 1)
    because = last.decision.because
    # Of a policy that was changed since, the decision does not know.
    most = item.policy.get("attempts") if item.policy_from == "operator" else because.attempts
    return format_attempt_number(last.number + 1, because.attempt + 1, most)


def _due(wait: Wait) -> float:
    return float("inf") if wait.until is None else wait.until.after
