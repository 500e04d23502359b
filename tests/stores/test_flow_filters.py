"""The filters of flows mean the same in every store: what a model in Python says."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.postgres_server import shared_server

from redrive.assembly import store_at
from redrive.flows.tags import MOST_TAGS, has_tags, read_tags, write_tags
from redrive.stores.interface import Store
from redrive.stores.records import FlowQuery, NewFlow

NOW = 1_700_000_000.0
NAMES = st.sampled_from(["tenant", "env", "a.b", "a", "b", "x/y:z-1", "__proto__", "0"])
TEXTS = st.sampled_from(["acme", "ACME", "", "a b", "ü漢🦊", "'", '"', "\\", "%", "_", "$.a", "null", "1", "\n"])
TAGS = st.dictionaries(NAMES, TEXTS.filter(bool), max_size=3)
MAYBE = {
    "queue": st.sampled_from(["default", "mail"]),
    "batch": st.sampled_from(["night", "day"]),
    "definition": st.sampled_from(["action:a", "action:b"]),
}


@st.composite
def flows(draw: st.DrawFn) -> list[NewFlow]:
    count = draw(st.integers(0, 12))
    return [
        NewFlow(
            id=f"f{number:02}",
            input="{}",
            created_at=NOW + number,
            start_at=NOW + number + draw(st.sampled_from([0, 5])),
            tags=write_tags(draw(TAGS)),
            definition=draw(MAYBE["definition"]),
            queue=draw(MAYBE["queue"]),
            batch=draw(st.none() | MAYBE["batch"]),
        )
        for number in range(count)
    ]


QUERIES = st.builds(
    FlowQuery,
    tags=TAGS,
    status=st.sampled_from([(), ("ready",), ("waiting", "ready"), ("failed",)]),
    limit=st.sampled_from([1, 3, 100]),
    before=st.none() | st.sampled_from(["f03", "f07"]),
    created_after=st.none() | st.sampled_from([NOW, NOW + 4]),
    created_before=st.none() | st.sampled_from([NOW + 4, NOW + 9]),
    **{name: st.none() | values for name, values in MAYBE.items()},
)


def expected(known: list[NewFlow], query: FlowQuery) -> list[str]:
    found = [
        flow.id
        for flow in reversed(known)
        if all(getattr(query, name) in (None, getattr(flow, name)) for name in MAYBE)
        and (not query.status or flow.initial_status in query.status)
        and set(query.tags.items()) <= set(read_tags(flow.tags).items())
        and (query.before is None or flow.id < query.before)
        and (query.created_after is None or flow.created_at >= query.created_after)
        and (query.created_before is None or flow.created_at < query.created_before)
    ]
    return found[: query.limit]


async def compare(store: Store, known: list[NewFlow], queries: list[FlowQuery]) -> None:
    assert await store.add_flows(known) == [None] * len(known)
    for query in queries:
        assert [flow.id for flow in await store.list_flows(query)] == expected(known, query)
        assert await store.count_matching_flows(query) == len(expected(known, query))


async def empty(store: Store, known: list[NewFlow]) -> None:
    """Leave the store as it was, by ending the flows and pruning them."""
    from redrive.stores.leases import NewWorker
    from redrive.stores.records import Batch, FlowChange

    lease = await store.acquire_lease(NewWorker(name="w", definitions=()), 60.0)
    claimed = await store.claim(lease, ["action:a", "action:b"], None, 100, NOW + 1000)
    assert len(claimed.flows) == len(known)
    ended = [
        FlowChange(flow_id=flow.id, status="completed", wake_at=None, messages_read=0, finished_at=NOW)
        for flow in claimed.flows
    ]
    if ended:
        await store.commit(lease, Batch(number=1, flows=ended))
    await store.release_lease(lease)
    while await store.prune(NOW + 1, 1000):
        pass


@pytest.mark.promise("E9")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_filters_find_what_the_model_finds(kind: str, tmp_path: Path) -> None:
    addresses: dict[str, Callable[[], str]] = {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/app.db",
        "postgresql": lambda: shared_server().fresh_database(),
    }
    address = addresses[kind]()

    with asyncio.Runner() as runner:
        store = store_at(address)

        def run(story: Awaitable[Any]) -> Any:
            async def play() -> Any:
                return await story

            return runner.run(play())

        run(store.open())
        try:

            @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
            @given(flows(), st.lists(QUERIES, min_size=1, max_size=5))
            def compares(known: list[NewFlow], queries: list[FlowQuery]) -> None:
                try:
                    run(compare(store, known, queries))
                finally:
                    run(empty(store, known))

            compares()
        finally:
            run(store.close())


@given(TAGS, TAGS)
def test_tags_are_stored_in_one_form(tags: dict[str, str], wanted: dict[str, str]) -> None:
    stored = write_tags(tags)
    assert read_tags(stored) == tags
    assert stored == write_tags(dict(reversed(tags.items())))
    assert has_tags(stored, wanted) == (tags | wanted == tags)
    assert (stored is None) == (not tags)


def test_as_many_tags_as_allowed_are_stored() -> None:
    most = {f"t{number}": "x" * 256 for number in range(MOST_TAGS)}
    assert read_tags(write_tags(most)) == most
