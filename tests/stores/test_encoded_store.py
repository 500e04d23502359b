"""A store with a codec passes the suite of every store, over each of them; and nothing in it can be read."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.stores.postgres_scene import fresh_schema, shared_database

from redrive.codecs import AesGcm
from redrive.stores.batches import BatchRow
from redrive.stores.encoded.store import WITHOUT_PAYLOADS, EncodedStore
from redrive.stores.encoded_text import key_of
from redrive.stores.interface import Store
from redrive.stores.memory.data import MemoryData
from redrive.stores.memory.store import MemoryStore
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, DeadLetter, DeadQuery, FlowChange, FlowQuery, HeartbeatRow, NewFlow
from redrive.stores.schedules import ScheduleRow
from redrive.stores.sent import Sent
from redrive.stores.sqlite.store import SqliteStore
from redrive.testing.store_conformance import MakeStore, StoreConformance
from redrive.testing.store_conformance.flows import retry
from redrive.testing.store_conformance.scenario import NOW, WORK, Stores, acquire, add, event, new_flow, scenario

pytestmark = pytest.mark.promise("E10")

OLD, NEW, OTHER = AesGcm.new_key(), AesGcm.new_key(), AesGcm.new_key()


def opening(make: Callable[[], Any]) -> MakeStore:
    async def make_store() -> Store:
        store = cast("Store", EncodedStore(make(), AesGcm([NEW, OLD])))
        await store.open()
        return store

    return make_store


class EncodedStoreConformance(StoreConformance):
    @scenario
    async def test_flows_are_found_by_the_messages_of_open_dead_letters(self, stores: Stores) -> None:
        """They are not: a codec hides messages from the search as well."""
        store = await stores.open()
        await add(store, new_flow("a"))
        assert await store.list_flows(FlowQuery(text="encoded")) == []


class TestEncodedMemoryStore(EncodedStoreConformance):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        data = MemoryData()
        return opening(lambda: MemoryStore(data))


class TestEncodedSqliteStore(EncodedStoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return opening(lambda: SqliteStore(str(tmp_path / "app.db")))


class TestEncodedPostgresStore(EncodedStoreConformance):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        url, schema = shared_database(), fresh_schema()
        return opening(lambda: PostgresStore(url, schema))


def test_no_verb_of_a_store_is_passed_on_unless_it_is_known_to_have_no_payloads() -> None:
    verbs = {name for name in dir(Store) if not name.startswith("_")} | {"address"}
    own = {name for name in vars(EncodedStore) if not name.startswith("_")}
    assert verbs - own - WITHOUT_PAYLOADS == set(), "encode the payloads of these verbs, or list them as having none"
    assert own & WITHOUT_PAYLOADS == set()
    with pytest.raises(AttributeError, match="new_verb"):
        cast("Any", EncodedStore(MemoryStore(), AesGcm([NEW]))).new_verb  # noqa: B018 - it raises


CLEAR_OR_ENCODED: dict[Any, str] = {
    Batch: "number new_flows events flows retries retries_done messages_read dead heartbeats children sends",
    NewFlow: "id definition input created_at start_at queue priority key traceparent parent batch tags "
    "concurrency_key version depth",
    FlowChange: "flow_id status wake_at messages_read finished_at lost_owners blame input run_from version",
    DeadLetter: "flow_id definition queue at kind step attempts error_type message payload state by why closed_at "
    "dependency",
    ScheduleRow: "name body next_at waits_for version",
    BatchRow: "name created_at total digest tags on_done done_at",
}


@pytest.mark.parametrize("kind", CLEAR_OR_ENCODED, ids=lambda kind: kind.__name__)
def test_no_field_of_what_is_written_is_forgotten(kind: Any) -> None:
    told = "decide whether the new field holds payloads; if so, encode it in stores/encoded/payloads.py"
    assert set(kind.__struct_fields__) == set(CLEAR_OR_ENCODED[kind].split()), told


def test_all_that_a_commit_writes_is_encoded() -> None:
    data, secret = MemoryData(), "Xanadu"

    async def write() -> None:
        store = EncodedStore(MemoryStore(data), AesGcm([NEW]))
        lease = await acquire(cast("Store", store))
        await store.add_flows([new_flow("old", input=secret)])
        await store.claim(lease, (WORK,), None, 10, NOW)
        letter = DeadLetter(
            flow_id="old",
            definition=WORK,
            queue="q",
            at=NOW,
            kind="k",
            step="s",
            attempts=1,
            error_type="E",
            message=secret,
            payload=secret,
        )
        child = new_flow("child", parent="old", input=secret)
        batch = Batch(
            number=1,
            new_flows=[new_flow("new", input=secret)],
            events=[event("old", 1, secret)],
            flows=[FlowChange(flow_id="old", status="running", input=secret)],
            dead=[letter],
            heartbeats=[HeartbeatRow("old", 1, NOW, secret)],
            retries=[msgspec.structs.replace(retry("old", 1), reason=secret)],
            children=[(child, secret), (msgspec.structs.replace(child, id="twin"), secret)],
            sends=[Sent("old", "new", NOW, secret)],
        )
        await store.commit(lease, batch)
        await store.send("old", secret, NOW)
        await store.write_schedule(ScheduleRow("s", secret, None, None, 0), [new_flow("tick", input=secret)])
        await store.add_batch(BatchRow(name="b", created_at=NOW, on_done=secret))
        await store.complete_batch("b", 1, secret)
        seen: list[Any] = [
            await store.read_events(["old"]),
            await store.read_heartbeats(["old"]),
            await store.find_batch("b"),
        ]
        seen += [await store.list_dead_letters(DeadQuery()), await store.list_schedules("", 10)]
        assert str(seen).count(secret) == 7

    asyncio.run(write())
    rows: list[Any] = [
        data.flows,
        data.events,
        data.messages,
        data.retries,
        data.heartbeats,
        data.dead,
        data.schedules,
        data.batches,
    ]
    assert all(rows)
    assert secret not in msgspec.json.encode([[*table.values()] for table in rows]).decode()


def inputs(data: MemoryData, *keys: str) -> list[str]:
    """The inputs of all flows, as a process with these keys reads them."""

    async def read() -> list[str]:
        store = EncodedStore(MemoryStore(data), AesGcm(keys))
        return sorted(flow.input for flow in await store.list_flows(FlowQuery()))

    return asyncio.run(read())


def add_with(data: MemoryData, flow_id: str, *keys: str) -> None:
    store = EncodedStore(MemoryStore(data), AesGcm(keys))
    asyncio.run(store.add_flows([new_flow(flow_id, input=f'"{flow_id}"')]))


def test_keys_rotate() -> None:
    data = MemoryData()
    add_with(data, "before", OLD)
    add_with(data, "midway", OLD, NEW)
    add_with(data, "after", NEW, OLD)
    assert inputs(data, NEW, OLD) == inputs(data, OLD, NEW) == ['"after"', '"before"', '"midway"']
    key_ids = [key_of(data.flows[flow].input) for flow in ("before", "midway", "after")]
    assert key_ids == [*AesGcm([OLD]).keys, *AesGcm([OLD]).keys, *AesGcm([NEW]).keys]
    assert [key_of(text) for text in inputs(data, NEW)] == [None, *AesGcm([OLD]).keys, *AesGcm([OLD]).keys]


def test_flows_from_before_the_codec_are_read() -> None:
    data = MemoryData()
    asyncio.run(MemoryStore(data).add_flows([new_flow("clear", input='"clear"')]))
    add_with(data, "hidden", NEW)
    assert inputs(data, NEW) == ['"clear"', '"hidden"']


def test_a_text_moved_to_another_flow_is_not_decoded(caplog: pytest.LogCaptureFixture) -> None:
    data = MemoryData()
    add_with(data, "mine", NEW)
    add_with(data, "yours", NEW)
    data.flows["mine"] = msgspec.structs.replace(data.flows["mine"], input=data.flows["yours"].input)
    assert [key_of(text) is None for text in inputs(data, NEW)].count(True) == 1
    assert "the input of mine cannot be decoded" in caplog.text
    assert "belongs to another flow" in caplog.text


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("not a list", "use a list of at least one key"),
        ([], "use a list of at least one key"),
        (["short"], "key 1 is not 32 bytes in base64"),
        ([NEW, "ü"], "key 2 is not 32 bytes in base64"),
    ],
    ids=["one text", "none", "short", "not base64"],
)
def test_wrong_keys_are_refused_and_not_shown(keys: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AesGcm(keys)
    assert NEW not in repr(AesGcm([NEW]))
