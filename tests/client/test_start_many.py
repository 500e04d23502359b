"""Many flows are started in few transactions, once for each key, and found by their tags."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.in_loop import in_loop
from tests.postgres_server import shared_server

import redrive
from redrive.client import many_starts
from redrive.errors import KeyTakenError
from redrive.stores.memory.store import MemoryStore
from redrive.stores.records import FlowQuery

PATIENCE = 30.0


@redrive.action(name="many.double")
async def double(n: int) -> int:
    return n * 2


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else shared_server().fresh_database()


@asynccontextmanager
async def opened(address: str, worker: bool = False) -> AsyncIterator[redrive.App]:
    async with redrive.open(address, worker=worker, grace=0) as app:
        yield app


@pytest.mark.promise("E7")
@in_loop
async def test_many_flows_are_started_and_run(address: str) -> None:
    async with opened(address, worker=True) as app:
        handles = await app.start_many(double(n) for n in range(300))
        assert all(one.is_new for one in handles)
        assert [await one.result(PATIENCE) for one in handles] == [2 * n for n in range(300)]


@pytest.mark.promise("E7")
@in_loop
async def test_with_keys_each_flow_is_started_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_starts, "ADDED_AT_ONCE", 4)
    told: list[int] = []
    keys = [f"k{n}" for n in range(10)]
    async with opened(address) as app:
        first = await app.start_many([double(n) for n in range(6)], keys=keys[:6])
        again = await app.start_many((double(n) for n in range(10)), keys=iter(keys), progress=told.append)
        assert [one.id for one in again[:6]] == [one.id for one in first]
        assert [one.is_new for one in again] == [False] * 6 + [True] * 4
        assert told == [4, 8, 10]
        assert len(await app.flows()) == 10
        with pytest.raises(KeyTakenError):
            await app.start_many([double(99)], keys=["k3"])


@in_loop
async def test_a_key_that_occurs_twice_is_one_flow(address: str) -> None:
    async with opened(address) as app:
        one, other = await app.start_many([double(1), double(1)], keys=["k", "k"])
        assert (one.id, one.is_new, other.is_new) == (other.id, True, False)


@in_loop
async def test_calls_have_settings_in_common_and_of_their_own(address: str) -> None:
    async with opened(address) as app:
        plain, urgent = await app.start_many(
            [double(1), (double(2), {"priority": 9, "key": "two", "tags": {"tenant": "b"}})],
            queue="night",
            tags={"tenant": "a"},
        )
        flows = {one.id: one for one in await app.flows()}
        assert [flows[one.id].queue for one in (plain, urgent)] == ["night", "night"]
        assert [flows[one.id].priority for one in (plain, urgent)] == [0, 9]
        assert [flows[one.id].key for one in (plain, urgent)] == [None, "two"]
        assert [flows[one.id].tags for one in (plain, urgent)] == ['{"tenant":"a"}', '{"tenant":"b"}']


@in_loop
async def test_pieces_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_starts, "MOST_TEXT_AT_ONCE", 2000)
    pieces: list[int] = []

    class Counting(MemoryStore):
        async def add_flows(self, flows: Any) -> Any:
            pieces.append(len(flows))
            return await super().add_flows(flows)

    async with redrive.App(Counting(), worker=False) as app:
        await app.start_many([long("x" * 3000), long("x"), long("y"), long("x" * 3000)])
    assert pieces == [1, 2, 1]


@redrive.action(name="many.long")
async def long(text: str) -> None: ...


@pytest.mark.parametrize(
    ("calls", "options", "says"),
    [
        ([double(1), 7], {}, "start takes a call"),
        ([(double(1), {"prioriti": 5})], {}, "did you mean 'priority'?"),
        ([(double(1), {"key": "k"})], {"keys": ["other"]}, "has a key of its own"),
        ([double(1), double(2)], {"keys": ["a"]}, "give a key for each call"),
        ([double(1)], {"keys": ["a", "b"]}, "give one for each call"),
        ([double(1)], {"keys": "a"}, "is one text"),
        ([double(1)], {"key": "a"}, "'key' is not a setting; did you mean 'keys'?"),
        ([double(1)], {"tags": {"a b": "x"}}, "'a b' is not a valid name"),
        ([double(1)], {"tags": {"a": 5}}, "a is 5; use a text"),
        ([double(1)], {"tags": {"a": "\x00"}}, "without NUL"),
        ([double(1)], {"tags": {"a": "x" * 257}}, "1 to 256 characters"),
        ([double(1)], {"tags": {f"t{n}": "x" for n in range(21)}}, "at most 20"),
        ([double(1)], {"tags": ["a"]}, "is not a mapping"),
    ],
)
@in_loop
async def test_a_wrong_call_is_refused_in_one_line(calls: Any, options: dict[str, Any], says: str) -> None:
    async with opened("memory://") as app:
        with pytest.raises((TypeError, ValueError)) as refused:
            await app.start_many(calls, **options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@in_loop
async def test_the_error_says_which_call_was_refused() -> None:
    wrong: Any = "nonsense"
    async with opened("memory://") as app:
        with pytest.raises(TypeError) as refused:
            await app.start_many([double(0), double(1), wrong])
    assert "this is call 2, counted from 0" in refused.value.__notes__[0]


@in_loop
async def test_flows_are_found_by_their_tags(address: str) -> None:
    async with opened(address) as app:
        one = await app.start(double(1), tags={"tenant": "acme", "env": "prod"})
        other = await app.start(double(2), tags={"tenant": "acme", "env.x/y": 'te"st'})
        await app.start(double(3))

        async def found(**tags: str) -> set[str]:
            return {flow.id for flow in await app.flows(FlowQuery(tags=tags))}

        assert await found(tenant="acme") == {one.id, other.id}
        assert await found(tenant="acme", env="prod") == {one.id}
        assert await found(**{"env.x/y": 'te"st'}) == {other.id}
        assert await found(tenant="other") == await found(env="acme") == set()
        with pytest.raises(ValueError, match="is not a valid name"):
            FlowQuery(tags={'a"': "x"})


KILLED = """
import asyncio, os, sys, redrive

@redrive.action(name="many.double")
async def double(n: int) -> int:
    return n * 2

def progress(done):
    if done >= 6000:
        os._exit(9)

async def main():
    async with redrive.open(sys.argv[1], worker=False) as app:
        await app.start_many((double(n) for n in range(20_000)), keys=map(str, range(20_000)), progress=progress)

asyncio.run(main())
"""


@pytest.mark.promise("E7")
@in_loop
async def test_after_a_crash_in_the_middle_it_can_be_repeated(address: str) -> None:
    if address == "memory://":
        pytest.skip("nothing of a store in memory is left after a crash")
    killed = subprocess.run([sys.executable, "-c", KILLED, address], capture_output=True, timeout=60)  # noqa: S603, ASYNC221 - our own command; nothing else runs in this loop
    assert killed.returncode == 9, killed.stderr
    async with opened(address) as app:
        kept = await app.store.count_matching_flows(FlowQuery(limit=100_000))
        assert kept == 6000
        handles = await app.start_many((double(n) for n in range(20_000)), keys=map(str, range(20_000)))
        assert [one.is_new for one in handles] == [False] * kept + [True] * (20_000 - kept)
        assert await app.store.count_matching_flows(FlowQuery(limit=100_000)) == 20_000
