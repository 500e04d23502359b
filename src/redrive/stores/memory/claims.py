"""Claims; `redrive.stores.turns` decides which flows."""

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from redrive.stores.claimed import Claimed
from redrive.stores.leases import Lease
from redrive.stores.memory.data import MemoryData
from redrive.stores.pools import pools_of
from redrive.stores.records import FlowRecord
from redrive.stores.turns import FORGOTTEN_TURNS, Candidate, Line, LineName, QueueState, Served, choose


def claim(
    data: MemoryData,
    lease: Lease,
    definitions: Sequence[str],
    queues: Sequence[str] | None,
    limit: int,
    now: float,
    skipped: Collection[str],
) -> Claimed:
    matching = [
        flow
        for flow in map(data.flows.__getitem__, data.claimable)
        if flow.definition in definitions
        and flow.definition not in skipped
        and flow.version in (None, lease.version)
        and (queues is None or flow.queue in queues)
        and flow.queue not in data.pauses
    ]
    wakes = [flow.wake_at for flow in matching if flow.status == "waiting" and not _is_due(flow, now)]
    due = [flow for flow in matching if flow.status == "ready" or _is_due(flow, now)]
    states = {name: QueueState(one, data.owned_in(name)) for name, one in data.queue_settings.items()}
    held = {(name, key): number for name in states for key, number in data.held_in(name).items()}
    choice = choose(_lines(data, due), states, held, data.rates, limit, now)
    claimed = [
        msgspec.structs.replace(flow, status="running", owner=lease.epoch, claims=flow.claims + 1)
        for flow in map(data.flows.__getitem__, choice.flows)
    ]
    for flow in claimed:
        data.put(flow)
    data.rates = {place: level for place, level in (data.rates | choice.levels).items() if level > now}
    data.turns |= choice.served
    newest = max((served.turn for served in choice.served.values()), default=0)
    data.turns = {name: served for name, served in data.turns.items() if served.turn >= newest - FORGOTTEN_TURNS}
    next_wake = min((one for one in (*wakes, choice.next_wake) if one is not None), default=None)
    limited = bool(states) or any(flow.concurrency_key is not None for flow in due)
    return Claimed(claimed, next_wake, len(claimed) == limit, limited, frozenset(data.pauses))


def _lines(data: MemoryData, due: list[FlowRecord]) -> list[Line]:
    lines: dict[LineName, list[Candidate]] = defaultdict(list)
    for flow in sorted(due, key=lambda flow: (-flow.priority, flow.wake_at or 0.0)):
        key, fresh, pool = flow.concurrency_key, flow.claims == 0, pools_of([flow.definition], flow.version or "")[-1]
        candidate = Candidate(flow.id, flow.priority, flow.wake_at or 0.0, key, fresh)
        settings = data.queue_settings.get(flow.queue)
        if key is not None:
            name = LineName(flow.queue, pool, "keyed" if fresh else "keyed begun", flow.priority)
        else:
            begun = not fresh and settings is not None and settings.rate is not None
            ages = settings is not None and settings.aging is not None
            name = LineName(flow.queue, pool, "plain begun" if begun else "plain", flow.priority if ages else 0)
        lines[name].append(candidate)
    found = []
    for name, candidates in lines.items():
        served = data.turns.get(name, Served())
        if name.kind in ("keyed", "keyed begun"):
            candidates = _in_turns(candidates, served.key)
        found.append(Line(name, served, candidates))
    return found


def _in_turns(candidates: list[Candidate], last: str) -> list[Candidate]:
    """The first flow of each key from behind the last one on, then the second of each."""
    ranks: dict[str, int] = defaultdict(int)
    places = []
    for one in candidates:
        key = one.key or ""
        places.append((ranks[key], key <= last, key))
        ranks[key] += 1
    return [one for _, one in sorted(zip(places, candidates, strict=True), key=lambda pair: pair[0])]


def _is_due(flow: FlowRecord, now: float) -> bool:
    """Whether a waiting flow is due; one without a time waits for a message."""
    return flow.wake_at is not None and flow.wake_at <= now
