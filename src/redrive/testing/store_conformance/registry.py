# ruff: noqa: S101 - tests use assert
"""The registry: the catalogue of steps, the access keys of the HTTP API, and the audit log."""

import asyncio

import msgspec
import pytest

from redrive.errors import StoreError
from redrive.stores.audit import LONGEST_AUDIT, AuditEntry, AuditQuery
from redrive.stores.registry_rows import KeyRow, StepRow
from redrive.testing.store_conformance.flows import TEXTS
from redrive.testing.store_conformance.scenario import NOW, Stores, scenario


def step(name: str, body: str = "{}", updated_at: float = NOW) -> StepRow:
    return StepRow(name=name, body=body, updated_at=updated_at)


def key(id: str, created_at: float = NOW) -> KeyRow:  # noqa: A002 - named as the field is
    return KeyRow(id=id, name="ann", role="operator", digest="d1g3st", created_at=created_at)


def entry(target: str, at: float = NOW, action: str = "flow.cancel") -> AuditEntry:
    return AuditEntry(at=at, actor="key ci", origin="10.0.0.7", action=action, target=target, detail='why: "17"')


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

    @scenario
    async def test_a_key_keeps_its_limits_and_times(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        limited = msgspec.structs.replace(
            key("k1"),
            queues=("mail", 'it\'s "q"'),
            definitions=("graph:order",),
            expires_at=NOW + 10.25,
            used_at=NOW + 1,
        )
        await store.add_key(limited)
        assert await other.list_keys() == [limited]

    @scenario
    async def test_a_key_expires_at_the_earlier_time(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await store.add_key(key("k1"))
        await store.add_key(key("k2", NOW + 1))
        assert await store.expire_key("k1", NOW + 60.5)
        assert [one.expires_at for one in await other.list_keys()] == [NOW + 60.5, None]
        assert await other.expire_key("k1", NOW + 30)
        assert await other.expire_key("k1", NOW + 90)
        assert [one.expires_at for one in await store.list_keys()] == [NOW + 30, None]
        assert not await store.expire_key("k3", NOW)

    @scenario
    async def test_the_last_use_of_a_key_is_kept(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        for one in ("k1", "k2", "k3"):
            await store.add_key(key(one))
        await store.mark_keys_used({"k1": NOW + 5.5, "k2": NOW + 3, "gone": NOW})
        await other.mark_keys_used({"k1": NOW + 4, "k2": NOW + 6})
        await other.mark_keys_used({})
        assert [one.used_at for one in await store.list_keys()] == [NOW + 5.5, NOW + 6, None]

    @scenario
    async def test_the_audit_log_is_listed_newest_first_in_pages(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        assert await store.list_audit_entries(AuditQuery()) == []
        for number in range(5):
            await (store, other)[number % 2].add_audit_entries([entry(f"f{number}", NOW + number * 0.25)])
        await store.add_audit_entries([entry("f1", NOW + 9, action="flow.pause")])
        found = await other.list_audit_entries(AuditQuery(limit=4))
        assert [one.target for one in found] == ["f1", "f4", "f3", "f2"]
        assert found[1] == msgspec.structs.replace(entry("f4", NOW + 1), id=found[1].id)
        rest = await store.list_audit_entries(AuditQuery(before=found[-1].id))
        assert [one.target for one in rest] == ["f1", "f0"]
        assert [one.target for one in await store.list_audit_entries(AuditQuery(action="flow.pause"))] == ["f1"]
        assert [one.action for one in await store.list_audit_entries(AuditQuery(target="f1"))] == [
            *("flow.pause", "flow.cancel"),
        ]

    @scenario
    async def test_several_audit_entries_are_added_in_their_order(self, stores: Stores) -> None:
        store, other = await stores.open(), await stores.open()
        await store.add_audit_entries([])
        await store.add_audit_entries([entry(f"f{number}", NOW + number) for number in range(5)])
        found = await other.list_audit_entries(AuditQuery())
        assert [(one.target, one.at) for one in found] == [(f"f{number}", NOW + number) for number in range(4, -1, -1)]

    @scenario
    async def test_the_audit_log_finds_what_was_done_to_the_parts_of_a_target(self, stores: Stores) -> None:
        store = await stores.open()
        targets = (
            "f_1",
            "f_1/pay",
            "f_1/pay/1",
            "F_1/pay",
            "f_11",
            "f_1-2/pay",
            "fx1/pay",
            "f%/pay",
            "f\\1/pay",
            "x/f_1",
        )
        await store.add_audit_entries([entry(target) for target in targets])
        for target, expected in (
            ("f_1", ["f_1/pay/1", "f_1/pay", "f_1"]),
            ("f_1/pay", ["f_1/pay/1", "f_1/pay"]),
            ("f%", ["f%/pay"]),
            ("f\\1", ["f\\1/pay"]),
            ("f", []),
            ("pay", []),
        ):
            found = await store.list_audit_entries(AuditQuery(target=target))
            assert [one.target for one in found] == expected

    @scenario
    async def test_the_audit_log_is_bounded_by_age(self, stores: Stores) -> None:
        store = await stores.open()
        await store.add_audit_entries([entry("old", NOW)])
        await store.add_audit_entries([entry("kept", NOW + 1)])
        await store.add_audit_entries([entry("new", NOW + LONGEST_AUDIT + 0.5)])
        assert [one.target for one in await store.list_audit_entries(AuditQuery())] == ["new", "kept"]

    @scenario
    async def test_the_audit_log_is_bounded_in_number(self, stores: Stores) -> None:
        store = await stores.open()
        for number in range(6):
            await store.add_audit_entries([entry(f"f{number}")], keep=3)
        assert [one.target for one in await store.list_audit_entries(AuditQuery())] == ["f5", "f4", "f3"]
