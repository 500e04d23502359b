# ruff: noqa: S101 - tests use assert
"""The registry: the catalogue of steps, and the access keys of the HTTP API."""

import asyncio

import msgspec
import pytest

from redrive.errors import StoreError
from redrive.stores.records import KeyRow, StepRow
from redrive.testing.store_conformance.flows import TEXTS
from redrive.testing.store_conformance.scenario import NOW, Stores, scenario


def step(name: str, body: str = "{}", updated_at: float = NOW) -> StepRow:
    return StepRow(name=name, body=body, updated_at=updated_at)


def key(id: str, created_at: float = NOW) -> KeyRow:  # noqa: A002 - named as the field is
    return KeyRow(id=id, name="ann", role="operator", digest="d1g3st", created_at=created_at)


class RegistryConformance:
    @scenario
    async def test_steps_are_added_replaced_and_removed(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.list_steps() == []
        assert await store.put_step(step("ship", '{"mode": "sync"}'))
        assert await other.put_step(step("reserve"))
        replaced = step("ship", '{"mode": "async"}', NOW + 0.25)
        assert not await other.put_step(replaced)
        assert not await store.put_step(replaced)
        assert await store.list_steps() == await other.list_steps() == [step("reserve"), replaced]
        assert await other.drop_step("ship")
        assert not await store.drop_step("ship")
        assert not await store.drop_step("never there")
        assert await store.list_steps() == [step("reserve")]
        assert await store.put_step(step("ship"))

    @scenario
    async def test_steps_are_listed_by_name_with_unchanged_bodies(self, stores: Stores) -> None:
        store = await stores.open()
        names = ["Z", "a", "a-1", "a_1", "b", "ä", "漢字", "🦊", 'it\'s "quoted"']
        steps = [step(name, TEXTS[index % len(TEXTS)], NOW + index) for index, name in enumerate(names)]
        for one in reversed(steps):
            assert await store.put_step(one)
        assert await store.list_steps() == sorted(steps, key=lambda one: one.name)

    @scenario
    async def test_of_concurrent_puts_of_a_step_one_adds_it(self, stores: Stores) -> None:
        several = [await stores.open() for _ in range(3)]
        new = await asyncio.gather(*(one.put_step(step("ship", str(n))) for n, one in enumerate(several * 3)))
        assert sorted(new) == [False] * 8 + [True]
        assert len(await several[0].list_steps()) == 1

    @scenario
    async def test_keys_are_added_listed_and_removed(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.list_keys() == []
        for one in (key("k3", NOW + 2), key("k2", NOW + 1.5), key("k4", NOW + 1.5), key("k1", NOW + 3)):
            await store.add_key(one)
        assert [(one.id, one.created_at) for one in await other.list_keys()] == [
            *(("k2", NOW + 1.5), ("k4", NOW + 1.5), ("k3", NOW + 2), ("k1", NOW + 3)),
        ]
        assert (await other.list_keys())[2] == key("k3", NOW + 2)
        assert await other.drop_key("k4")
        assert not await store.drop_key("k4")
        assert [one.id for one in await store.list_keys()] == ["k2", "k3", "k1"]

    @scenario
    async def test_a_key_is_not_replaced(self, stores: Stores) -> None:
        store = await stores.open()
        await store.add_key(key("k1"))
        stronger = msgspec.structs.replace(key("k1"), role="admin", digest="another-d1g3st")
        with pytest.raises(StoreError, match="key k1 already exists; nothing was written") as raised:
            await store.add_key(stronger)
        assert "d1g3st" not in str(raised.value)
        assert await store.list_keys() == [key("k1")]
