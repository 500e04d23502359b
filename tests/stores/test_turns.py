"""The choice of a claim, against a model: limits and rates hold, nothing waits without reason, keys take turns."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.stores.leases import NewWorker
from redrive.stores.memory.store import MemoryStore
from redrive.stores.queues import QueueSettings
from redrive.stores.rates import Rate, read_rate
from redrive.stores.records import Batch, FlowChange, NewFlow
from redrive.stores.turns import Candidate, Line, LineName, QueueState, Served, choose

pytestmark = pytest.mark.promise("E8")

WORK = "workflow:Work"
RATES = st.none() | st.sampled_from(["1/s", "3/10s", "40/s", "1000/s", "7/m"])


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/m", Rate(100, 60)),
        (" 5 / s ", Rate(5, 1)),
        ("10/30s", Rate(10, 30)),
        ("1/1h30m", Rate(1, 5400)),
        ("7/500ms", Rate(7, 0.5)),
    ],
)
def test_rates_are_read_as_people_write_them(text: str, rate: Rate) -> None:
    assert read_rate(text) == rate


@given(st.integers(1, 2000), st.floats(0.01, 1000), st.lists(st.floats(0, 10), max_size=60), st.integers(1, 40))
def test_no_window_has_more_than_the_rate_allows(number: int, seconds: float, pauses: list[float], most: int) -> None:
    rate, level, now, taken = Rate(number, seconds), float("-inf"), 1_700_000_000.0, []
    for pause in [0.0, *pauses]:
        now += pause
        for _ in range(most):
            if level > float("-inf") and rate.free_at(level) > now:
                break
            level = rate.after(level, now)
            taken.append(now)
    slack = 1e-5 * seconds + 1e-5
    for start in set(taken):
        assert sum(start <= at < start + seconds - slack for at in taken) <= number


class Model:
    """What claims from a memory store may take, kept beside it."""

    def __init__(self, queue: QueueSettings) -> None:
        self.queue = queue
        self.begun: list[tuple[str | None, float]] = []

    def check(self, held: Counter[str | None], now: float) -> None:
        if self.queue.limit is not None:
            assert held.total() <= self.queue.limit
        if self.queue.per_key is not None:
            assert all(number <= self.queue.per_key for key, number in held.items() if key is not None)
        self._check_rate(self.queue.rate, [at for _, at in self.begun], now)
        for key in {key for key, _ in self.begun if key is not None}:
            self._check_rate(self.queue.key_rate, [at for one, at in self.begun if one == key], now)

    def _check_rate(self, text: str | None, times: list[float], now: float) -> None:
        if text is not None:
            rate = read_rate(text)
            assert sum(now - rate.seconds * 0.999 < at for at in times) <= rate.number

    def has_room(self, held: Counter[str | None], key: str | None) -> bool:
        of_queue, of_key = self.queue.limit, self.queue.per_key
        return (of_queue is None or held.total() < of_queue) and (key is None or of_key is None or held[key] < of_key)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_claims_from_a_memory_store_keep_to_a_model(data: st.DataObject) -> None:
    of_queue = QueueSettings(
        limit=data.draw(st.none() | st.integers(1, 4)),
        per_key=data.draw(st.none() | st.integers(1, 2)),
        rate=data.draw(RATES),
        key_rate=data.draw(RATES),
        aging=data.draw(st.none() | st.just(5.0)),
    )
    keys = st.none() | st.sampled_from("abc")

    async def play() -> None:
        store, model, now, number = MemoryStore(), Model(of_queue), 1_700_000_000.0, 0
        await store.configure_queue("q", {name: getattr(of_queue, name) for name in of_queue.__struct_fields__})
        lease = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), 600)
        waiting: dict[str, str | None] = {}
        fresh: set[str] = set()
        owned: dict[str, str | None] = {}
        for step in range(data.draw(st.integers(1, 25))):
            now += data.draw(st.sampled_from([0.0, 0.1, 1.0, 7.0]))
            for _ in range(data.draw(st.integers(0, 4))):
                flow_id, key = f"f{number}", data.draw(keys)
                flow = NewFlow(
                    id=flow_id,
                    definition=WORK,
                    input="{}",
                    created_at=now,
                    start_at=now,
                    queue="q",
                    concurrency_key=key,
                    priority=data.draw(st.integers(0, 1)),
                )
                await store.add_flows([flow])
                waiting[flow_id], number = key, number + 1
                fresh.add(flow_id)
            most = data.draw(st.integers(1, 5))
            claimed = await store.claim(lease, [WORK], None, most, now)
            for record in claimed.flows:
                owned[record.id] = waiting.pop(record.id)
                if record.id in fresh:
                    fresh.discard(record.id)
                    model.begun.append((record.concurrency_key, now))
            held = Counter(owned.values())
            model.check(held, now)
            left = [one for one, key in waiting.items() if model.has_room(held, key)]
            if left and len(claimed.flows) < most:
                # Only a rate holds back what has room, and the claim tells until when.
                assert all(one in fresh for one in left)
                assert claimed.next_wake is not None
                assert claimed.next_wake > now
            for flow_id in data.draw(st.lists(st.sampled_from(sorted(owned)), unique=True)) if owned else []:
                key = owned.pop(flow_id)
                again = data.draw(st.booleans())
                change = FlowChange(flow_id=flow_id, status="ready" if again else "completed", wake_at=now)
                await store.commit(lease, Batch(number=step * 100 + len(owned), flows=[change]))
                if again:
                    waiting[flow_id] = key

    asyncio.run(play())


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 7))
def test_no_key_is_served_twice_while_another_waits(backlogs: list[int], most: int) -> None:
    """Whatever the backlogs are and however few a claim takes."""

    async def play() -> None:
        store = MemoryStore()
        lease = await store.acquire_lease(NewWorker(name="host:1", definitions=(WORK,)), 600)
        flows = [
            NewFlow(
                id=f"{key}-{one}",
                definition=WORK,
                input="{}",
                created_at=1.0,
                start_at=1.0,
                concurrency_key=f"key-{key}",
            )
            for key, backlog in enumerate(backlogs)
            for one in range(backlog)
        ]
        await store.add_flows(flows)
        served: Counter[str] = Counter()
        left = Counter(flow.concurrency_key for flow in flows)
        while some := (await store.claim(lease, [WORK], None, most, 2.0)).flows:
            for flow in some:
                assert flow.concurrency_key is not None
                served[flow.concurrency_key] += 1
                left[flow.concurrency_key] -= 1
                waiting = [served[key] for key in left if left[key] and key]
                assert not waiting or served[flow.concurrency_key] <= min(waiting) + 1

    asyncio.run(play())


def test_what_was_chosen_from_one_queue_changes_nothing_for_another() -> None:
    lines = [
        Line(LineName(queue, WORK, "plain", 0), Served(), [Candidate(f"{queue}{one}", 0, one) for one in range(3)])
        for queue in "ab"
    ]
    states = {"a": QueueState(QueueSettings(limit=4), owned=3)}
    assert choose(lines, states, {}, {}, 9, 10.0).flows == ["a0", "b0", "b1", "b2"]
