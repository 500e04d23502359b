"""Describe where a flow stands: the one thing to know, what it waits for, and what to do next."""

from typing import NamedTuple

from redrive.explain import advice
from redrive.explain.children import look_at_child
from redrive.explain.ended_flow import cancelled_headline, completed_headline, continued_headline, failed_headline
from redrive.explain.flow_facts import FlowFacts, format_signature
from redrive.explain.parts import Advice, ItemEntry, Wait
from redrive.explain.waits import is_certain, list_waits, name_item, unread_messages
from redrive.formatting.text import format_count, summarize
from redrive.formatting.times import format_duration, utc_datetime
from redrive.stores.leases import WorkerRecord
from redrive.stores.rates import read_rate
from redrive.stores.runs import LONG_RUN


class CurrentState(NamedTuple):
    headline: str
    waits_for: list[Wait]
    next_steps: list[Advice]


def describe_current_state(facts: FlowFacts) -> CurrentState:
    if facts.current_run is not None:
        return CurrentState(continued_headline(facts), [], advice.later_run(facts, facts.current_run))
    status = facts.record.status
    if status == "completed":
        return CurrentState(completed_headline(facts), [], [])
    if status == "failed":
        return CurrentState(failed_headline(facts), [], advice.after_failure(facts))
    if status == "cancelled":
        return CurrentState(cancelled_headline(facts), [], [])
    state = _unfinished(facts)
    if facts.events > LONG_RUN:
        state = state._replace(next_steps=[*state.next_steps, advice.shorten_log(facts)])
    if facts.history.cancel_requested is None:
        return state
    told = f"; cancellation was requested{facts.signature('cancel_requested')}, and its code has not stopped yet"
    return state._replace(headline=state.headline + told)


def _unfinished(facts: FlowFacts) -> CurrentState:
    status = facts.record.status
    if status == "paused":
        return _paused(facts, list_waits(facts))
    if status == "parked":
        problem = summarize(facts.history.parked or "", 1000)
        resume = advice.resume(facts, "once the code is fixed and its workers run it, go on")
        return CurrentState(f"parked: {problem}", list(unread_messages(facts)), [resume, advice.cancel(facts)])
    state = _running(facts) if status == "running" else _waiting(facts)
    return _in_paused_queue(facts, state)


def _in_paused_queue(facts: FlowFacts, state: CurrentState) -> CurrentState:
    """Say so if the flow's queue is paused, by whom, and how to resume it: whatever else is true, it begins nothing."""
    queue = facts.queue
    if queue is None or queue.pause is None or facts.history.paused:
        return state
    pause = queue.pause
    since = f"at {utc_datetime(pause.at):%Y-%m-%d %H:%M:%S} UTC, {format_duration(max(0.0, facts.now - pause.at))} ago"
    told = f"queue {queue.name} was paused{format_signature(pause.by, pause.why)} {since}"
    if facts.record.status == "running":
        headline = f"{state.headline}; {told}, so nothing else begins until it is resumed"
    else:
        headline = f"held: {told}; no attempt begins until it is resumed"
    return CurrentState(headline, state.waits_for, [advice.resume_queue(facts), advice.cancel(facts)])


def _paused(facts: FlowFacts, waits: list[Wait], meanwhile: str = "") -> CurrentState:
    headline = f"paused{facts.signature('paused')}; no attempt begins until it is resumed{meanwhile}"
    return CurrentState(headline, waits, [advice.resume(facts, "go on"), advice.cancel(facts)])


def _running(facts: FlowFacts) -> CurrentState:
    waits = list_waits(facts)
    owner = next((worker for worker in facts.live_workers if worker.epoch == facts.record.owner), None)
    if owner is None:
        headline = "its worker is gone, frozen or blocked; another one takes it over once the lease has expired"
        return CurrentState(headline, waits, [] if facts.eligibility.any_eligible() else advice.start_worker(facts))
    running = [item for item in facts.items if item.state == "running"]
    if not running and facts.eligibility.missing_actions and facts.unread_messages:
        # A worker that lacks actions owns the flow only while it reads its messages.
        return _ready(facts, waits)
    if facts.history.paused:
        meanwhile = f"; on {owner.name} {_running_attempts(facts, running)}" if running else ""
        return _paused(facts, waits, meanwhile)
    return CurrentState(_running_headline(facts, owner, running, waits), waits, [advice.cancel(facts)])


def _running_headline(facts: FlowFacts, owner: WorkerRecord, running: list[ItemEntry], waits: list[Wait]) -> str:
    certain = next((wait for wait in waits if is_certain(wait)), None)
    if running:
        doing = _running_attempts(facts, running)
    elif certain is not None:
        until = "" if certain.until is None else f" {facts.format_due(certain.until.at.timestamp())}"
        doing = f"it waits for {certain.what}{until}{_held_back(certain)}"
    else:
        doing = "it waits for one of its timers" if waits else "its code runs"
    return f"running on {owner.name}: {doing}"


def _running_attempts(facts: FlowFacts, running: list[ItemEntry]) -> str:
    attempt = running[0].attempts[-1]
    others = f", and {format_count(len(running) - 1, 'other step')}" if len(running) > 1 else ""
    elapsed = format_duration(max(0.0, facts.now - attempt.began.at.timestamp()))
    return f"attempt {attempt.number} of {name_item(running[0])} has run for {elapsed}{others}"


def _waiting(facts: FlowFacts) -> CurrentState:
    record, eligibility = facts.record, facts.eligibility
    waits = list_waits(facts)
    if record.status == "ready" or (record.wake_at is not None and record.wake_at <= facts.now):
        return _ready(facts, waits)
    signal = next((wait for wait in waits if wait.signals), None)
    if record.wake_at is None or (signal is not None and signal is waits[0]):
        return _waiting_for_signal(facts, waits, signal)
    if record.start_at > facts.now and not facts.items:
        return _waiting_for_start(facts)
    soonest = next((wait for wait in waits if wait.until is not None), None)
    if soonest is None and eligibility.missing_actions:
        # A worker that lacks actions has released the flow.
        return _ready(facts, waits)
    children = facts.history.children.open
    if soonest is None and children:
        text = f"waiting for {format_count(len(children), 'child flow')}"
        return CurrentState(text, waits, [*look_at_child(facts), advice.cancel(facts)])
    soonest = soonest or next((wait for wait in waits if wait.why), None)
    headline = f"waiting for {soonest.what if soonest else 'its wake-up'} {facts.format_due(record.wake_at)}"
    headline += _held_back(soonest) if soonest else ""
    if eligibility.any_eligible():
        return CurrentState(headline, waits, [Advice("nothing: it continues by itself"), advice.cancel(facts)])
    then = (
        f"then {eligibility.why_none()}"
        if eligibility.missing_actions or eligibility.lacks_version
        else "no live worker can take it then"
    )
    return CurrentState(f"{headline}; and {then}", waits, advice.start_worker(facts))


def _waiting_for_signal(facts: FlowFacts, waits: list[Wait], signal: Wait | None) -> CurrentState:
    wait = signal or next(iter(waits), None)
    until = "" if wait is None or wait.until is None else f", until {_due_time(facts, wait.until.at.timestamp())}"
    headline = f"waiting for {wait.what if wait else 'a signal'}{until}"
    sending = [advice.signal(facts, name) for name in (signal.signals if signal else ())]
    if facts.eligibility.any_eligible():
        return CurrentState(headline, waits, [*sending, advice.cancel(facts)])
    then = (
        f"then {facts.eligibility.why_none()}"
        if facts.eligibility.missing_actions
        else "no live worker can take it then"
    )
    return CurrentState(f"{headline}; and {then}", waits, [*sending, *advice.start_worker(facts)])


def _due_time(facts: FlowFacts, at: float) -> str:
    return facts.format_due(at).removeprefix("at ")


def _held_back(wait: Wait) -> str:
    return f": {wait.why}" if wait.why else ""


def _waiting_for_start(facts: FlowFacts) -> CurrentState:
    start_at = facts.record.start_at
    waits = [Wait(what="its start", until=facts.moment(start_at)), *unread_messages(facts)]
    headline = f"waiting for its start {facts.format_due(start_at)}"
    if facts.eligibility.missing_actions:
        headline = f"{headline}; and then {facts.eligibility.why_none()}"
        return CurrentState(headline, waits, advice.start_worker(facts))
    return CurrentState(headline, waits, [advice.cancel(facts)])


def _ready(facts: FlowFacts, waits: list[Wait]) -> CurrentState:
    """Say why a flow that could go on does not."""
    redriven = ""
    if facts.dead is not None and facts.dead.state == "redriven" and facts.history.ending is not None:
        redriven = f"redriven{format_signature(facts.dead.by, facts.dead.why)}, and "
    if not facts.eligibility.any_eligible():
        headline = f"{redriven}stuck: {facts.eligibility.why_none()}"
        return CurrentState(headline, waits, advice.start_worker(facts))
    queue = facts.queue
    if queue is not None and queue.limit is not None and queue.running >= queue.limit:
        full = f"queue {queue.name} is at its limit: {queue.running} of at most {queue.limit} flows run"
        wait = Advice("nothing: it goes on when one of them ends")
        return CurrentState(f"{redriven}ready, but {full}", waits, [wait])
    if (held := _held_by_key(facts) or _held_by_rate(facts)) is not None:
        headline, wait = held
        return CurrentState(f"{redriven}{headline}", waits, [wait])
    since = format_duration(max(0.0, facts.now - max(facts.record.start_at, facts.record.wake_at or 0.0)))
    return CurrentState(f"{redriven}ready for {since}: a worker takes it next", waits, [])


def _held_by_key(facts: FlowFacts) -> tuple[str, Advice] | None:
    queue, key = facts.queue, facts.record.concurrency_key
    if queue is None or key is None or queue.per_key is None or facts.use.held < queue.per_key:
        return None
    told = (
        f"ready, but waits for its turn: {facts.use.held} of {queue.per_key} flows of {key} run in queue {queue.name}"
    )
    return told, Advice("nothing: it goes on when one of them ends")


def _held_by_rate(facts: FlowFacts) -> tuple[str, Advice] | None:
    """Say which rate holds back a flow that has not begun."""
    queue, record, use = facts.queue, facts.record, facts.use
    if queue is None or record.claims > 0:
        return None
    rates = [(f"queue {queue.name}", queue.rate, use.level)]
    if record.concurrency_key is not None:
        rates.append((f"{record.concurrency_key} in queue {queue.name}", queue.key_rate, use.key_level))
    free = [
        (read_rate(rate).free_at(level), whose, rate)
        for whose, rate, level in rates
        if rate is not None and level is not None
    ]
    free_at, whose, rate = max(free, default=(facts.now, "", ""))
    if free_at <= facts.now:
        return None
    following = format_duration(free_at - facts.now)
    told = f"ready, but waits for the rate of {whose}, {rate}: the next flow begins in {following}"
    return told, Advice("nothing: it begins when the rate lets it")
