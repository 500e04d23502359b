"""Finished flows are kept in files, and explained from there once the store has none of them."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive.assembly import store_at
from redrive.client.archive import explain_archived, read_archive
from redrive.codecs import AesGcm
from redrive.errors import DeserializationError, FlowNotFoundError
from redrive.stores.interface import Store
from redrive.stores.records import FlowQuery
from redrive.testing import FlowApp, flow_app

KEY = AesGcm.new_key()


@redrive.action(name="archive.pay")
async def pay(cents: int) -> str:
    if cents < 0:
        raise redrive.Permanent("too little")
    return f"paid {cents}"


async def pay_all(app: FlowApp, amounts: range) -> list[str]:
    handles = [await app.start(pay(cents), key=f"order{cents}") for cents in amounts]
    for handle in handles:
        await app.outcome(handle)
    return [handle.id for handle in handles]


def ids(file: Path) -> list[str]:
    return [recorded.flow.id for recorded in read_archive(file)]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        from tests.postgres_server import shared_server

        return store_at(shared_server().fresh_database())
    return store_at("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/app.db")


def test_flows_that_ended_long_ago_are_archived_once_and_then_pruned(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "flows.jsonl.gz"

    async def scenario() -> None:
        async with flow_app(store) as app:
            old = await pay_all(app, range(-1, 150))
            app.clock.advance(3600)
            new = await pay_all(app, range(1000, 1003))
            first = await app.archive(file, before="30m")
            again = await app.archive(file, before="30m")
            assert (first.flows, first.kept, first.pruned) == (151, 0, 0)
            assert (again.flows, again.kept, again.pruned) == (151, 0, 0)
            assert sorted(ids(file)) == sorted(old)
            pruned = await app.archive(file, before="30m", then_prune=True)
            # The open dead letter stays, until somebody has settled it.
            assert (pruned.flows, pruned.pruned) == (151, 150)
            assert {one.id for one in await app.flows(FlowQuery(limit=1000))} == {old[0], *new}
            app.clock.advance(3600)
            last = await app.archive(file, before="30m", then_prune=True)
            assert (last.flows, last.kept, last.pruned) == (4, 150, 3)
            assert sorted(ids(file)) == sorted([*old, *new])

    asyncio.run(scenario())
    assert [path.name for path in tmp_path.iterdir() if "flows" in path.name] == ["flows.jsonl.gz"]


def test_an_archived_flow_is_explained(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with flow_app() as app:
            found = await pay_all(app, range(-1, 2))
            app.clock.advance(90)
            await app.archive(tmp_path, before="1m", then_prune=True)
            return found

    failed, paid, _ = asyncio.run(scenario())
    told = str(explain_archived(tmp_path, failed, 2e9))
    assert "too little" in told
    assert "paid 0" in str(explain_archived(tmp_path, "order0", 2e9))
    with pytest.raises(FlowNotFoundError, match="no flow order7 in"):
        explain_archived(tmp_path, "order7", 2e9)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("until-")
    assert paid in ids(file)


@pytest.mark.promise("E10")
def test_with_a_codec_an_archive_is_encoded_as_the_store_is(tmp_path: Path) -> None:
    file, address = tmp_path / "flows.jsonl.gz", "memory://"

    async def scenario() -> str:
        store = store_at(address, AesGcm([KEY]))
        async with flow_app(store) as app:
            (flow_id,) = await pay_all(app, range(4242, 4243))
            app.clock.advance(90)
            for _ in range(2):
                assert (await app.archive(file, before="1m")).flows == 1
            unseal: Any = getattr(store, "unseal")  # noqa: B009 - only an encoded store has it
            assert "paid 4242" in str(explain_archived(file, flow_id, 2e9, unseal))
            return flow_id

    flow_id = asyncio.run(scenario())
    assert b"4242" not in gzip.decompress(file.read_bytes())
    with pytest.raises(DeserializationError, match=f"encoded with key {AesGcm([KEY]).keys[0]}"):
        explain_archived(file, flow_id, 2e9)


def archived(target: Path, **settings: Any) -> None:
    async def scenario() -> None:
        async with redrive.open("memory://", worker=False) as app:
            await app.archive(target, **settings)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"before": "soon"}, "before: "),
        ({"before": 1, "then_prune": True}, "at least 60 seconds ago"),
        ({"then_prune": True, "definition": "action:archive.pay"}, "no definition can be given"),
    ],
    ids=["no duration", "too new", "a definition"],
)
def test_what_cannot_be_archived_is_refused(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        archived(tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_what_is_there_already_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "flows.jsonl.gz"
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        archived(tmp_path / "none" / "flows.jsonl.gz")
    (tmp_path / "flows.jsonl.gz.part").touch()
    with pytest.raises(FileExistsError, match="another archive is being written"):
        archived(file)
    (tmp_path / "flows.jsonl.gz.part").unlink()
    file.write_bytes(b"something else\n")
    with pytest.raises(DeserializationError, match=r"flows\.jsonl\.gz:1: this is no line of an archive"):
        archived(file)
    assert file.read_bytes() == b"something else\n"
    assert not (tmp_path / "flows.jsonl.gz.part").exists()
