# ruff: noqa: S101 - tests use assert
"""Dead letters: they are listed, and closed once, with a name and a reason."""

import asyncio

import msgspec

from redrive.stores.interface import Store
from redrive.stores.leases import Lease
from redrive.stores.records import Batch, DeadLetter, DeadQuery, FlowChange
from redrive.testing.store_conformance.flows import letter
from redrive.testing.store_conformance.scenario import (
    NOW,
    Stores,
    acquire,
    add,
    claim,
    found,
    scenario,
    status_of,
)


async def fail(store: Store, lease: Lease, number: int, *letters: DeadLetter) -> None:
    """Add flows and let them fail with these letters."""
    ids = [one.flow_id for one in letters]
    await add(store, *ids)
    await claim(store, lease)
    changes = [FlowChange(flow_id=one, status="failed", finished_at=NOW) for one in ids]
    await store.commit(lease, Batch(number=number, flows=changes, dead=list(letters)))


class DeadLetterConformance:
    @scenario
    async def test_a_letter_is_stored_as_it_is_and_replaced_by_the_next_of_its_flow(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        first = msgspec.structs.replace(letter("a"), message="ü 🦊 'quoted' \"twice\"", payload='{"x": "\\u0000"}')
        await fail(store, lease, 1, first)
        assert await store.list_dead_letters(DeadQuery()) == [first]
        await store.close_dead_letters(["a"], "redriven", "me", "fixed", NOW + 1, "{}")
        await claim(store, lease)
        second = msgspec.structs.replace(first, kind="poison", attempts=9, step="")
        await store.commit(lease, Batch(number=2, dead=[second]))
        assert await store.list_dead_letters(DeadQuery(state=None)) == [second]

    @scenario
    async def test_letters_are_listed_oldest_first_and_page_by_page(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        letters = [msgspec.structs.replace(letter(f"f{number}"), at=NOW + 9 - number // 2) for number in range(7)]
        await fail(store, lease, 1, *letters)
        everything = await store.list_dead_letters(DeadQuery())
        assert [one.at for one in everything] == sorted(one.at for one in letters)
        assert {one.flow_id for one in everything} == {one.flow_id for one in letters}
        paged: list[DeadLetter] = []
        while page := await store.list_dead_letters(DeadQuery(limit=3, after=paged[-1].cursor if paged else None)):
            assert len(page) <= 3
            paged += page
            # Closing the letters of a page must not shift the next page.
            await store.close_dead_letters([one.flow_id for one in page], "discarded", "me", "seen", NOW, None)
        assert paged == everything

    @scenario
    async def test_the_next_page_starts_in_the_right_spot_when_the_last_letter_was_replaced_or_removed(
        self, stores: Stores
    ) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await fail(store, lease, 1, *(msgspec.structs.replace(letter(f"f{one}"), at=NOW + one / 7) for one in range(6)))
        last = (await store.list_dead_letters(DeadQuery(limit=3)))[-1]
        assert last.flow_id == "f2"
        following = await store.list_dead_letters(DeadQuery(after=last.cursor))
        assert [one.flow_id for one in following] == ["f3", "f4", "f5"]
        await store.close_dead_letters(["f2"], "redriven", "me", "fixed", NOW + 9, "{}")
        await claim(store, lease)
        again = msgspec.structs.replace(last, at=NOW + 10)
        change = FlowChange(flow_id="f2", status="failed", messages_read=1, finished_at=NOW - 10)
        await store.commit(lease, Batch(number=2, flows=[change], dead=[again]))
        following = await store.list_dead_letters(DeadQuery(after=last.cursor))
        assert [one.flow_id for one in following] == ["f3", "f4", "f5", "f2"]
        await store.close_dead_letters(["f2"], "discarded", "me", "enough", NOW + 11, None)
        assert await store.prune(NOW - 5, 10) == 1
        following = await store.list_dead_letters(DeadQuery(after=last.cursor, state=None))
        assert [one.flow_id for one in following] == ["f3", "f4", "f5"]

    @scenario
    async def test_letters_are_filtered_by_the_query(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await fail(
            store,
            lease,
            1,
            letter("plain"),
            msgspec.structs.replace(letter("definition"), definition="action:other"),
            msgspec.structs.replace(letter("step"), step="ship"),
            msgspec.structs.replace(letter("kind"), kind="poison"),
            msgspec.structs.replace(letter("error"), error_type="TimeoutError"),
            msgspec.structs.replace(letter("queue"), queue="slow"),
            letter("gone"),
        )
        await store.close_dead_letters(["gone"], "discarded", "me", "old", NOW, None)

        async def ids(query: DeadQuery) -> list[str]:
            return sorted(one.flow_id for one in await store.list_dead_letters(query))

        assert await ids(DeadQuery()) == ["definition", "error", "kind", "plain", "queue", "step"]
        assert await ids(DeadQuery(flow_ids=("plain", "gone", "unknown"))) == ["plain"]
        assert await ids(DeadQuery(flow_ids=("plain", "gone"), state=None)) == ["gone", "plain"]
        assert await ids(DeadQuery(state="discarded")) == ["gone"]
        assert await ids(DeadQuery(definition="action:other")) == ["definition"]
        assert await ids(DeadQuery(step="ship")) == ["step"]
        assert await ids(DeadQuery(kind="poison")) == ["kind"]
        assert await ids(DeadQuery(error_type="TimeoutError")) == ["error"]
        assert await ids(DeadQuery(queue="slow")) == ["queue"]
        assert await ids(DeadQuery(queue="slow", kind="poison")) == []

    @scenario
    async def test_closing_records_who_and_why_and_reopens_the_flow_with_a_message(self, stores: Stores) -> None:
        store = await stores.open()
        lease = await acquire(store)
        await fail(store, lease, 1, letter("a"), letter("b"), letter("c"))
        closed = await store.close_dead_letters(
            ["a", "b", "unknown"], "redriven", "ü@ops", "it's back", NOW + 5, '"go"'
        )
        assert sorted(closed) == ["a", "b"]
        redriven = await store.list_dead_letters(DeadQuery(state="redriven"))
        assert sorted(one.flow_id for one in redriven) == ["a", "b"]
        for one in redriven:
            assert (one.by, one.why, one.closed_at) == ("ü@ops", "it's back", NOW + 5)
        for flow_id in ("a", "b"):
            flow = await found(store, flow_id)
            assert (flow.status, flow.finished_at, flow.messages_sent) == ("ready", None, 1)
        assert await status_of(store, "c") == "failed"
        assert sorted(await claim(store, lease)) == ["a", "b"]
        messages = await store.read_inbox(lease)
        assert sorted((one.flow_id, one.body) for one in messages) == [("a", '"go"'), ("b", '"go"')]

    @scenario
    async def test_a_letter_is_closed_once(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        lease = await acquire(several[0])
        await fail(several[0], lease, 1, letter("a"), letter("b"))
        answers = await asyncio.gather(
            *(store.close_dead_letters(["a"], "redriven", "me", "why", NOW, "{}") for store in several * 2)
        )
        assert sorted(map(len, answers)) == [0, 0, 0, 0, 0, 1]
        assert (await found(several[0], "a")).messages_sent == 1
        assert await several[1].close_dead_letters(["b"], "discarded", "me", "why", NOW, None) == ["b"]
        assert await several[2].close_dead_letters(["b"], "redriven", "you", "no", NOW, "{}") == []
        (discarded,) = await several[0].list_dead_letters(DeadQuery(state="discarded"))
        assert (discarded.flow_id, discarded.by) == ("b", "me")
        assert await status_of(several[0], "b") == "failed"
        assert (await found(several[0], "b")).messages_sent == 0
        assert await several[0].close_dead_letters([], "discarded", "me", "why", NOW, None) == []
