"""Batches over HTTP: added once, counted, listed, cancelled and redriven; and flows found by their tags."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop  # noqa: F401 - registers what the flows run
from tests.server.serving import Serving, serving

WHY = {"why": "not tonight", "by": "anna"}
NAP = {"workflow": "SrvNap", "inputs": {"seconds": 3600}}


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@pytest.fixture
def idle() -> Iterator[Serving]:
    """A server whose flows stay as they are."""
    with serving(worker=False) as server:
        yield server


def add(server: Serving, **body: Any) -> Any:
    return server.client.post("/v1/batches", json=body)


@pytest.mark.promise("E7")
def test_a_batch_is_added_once_counted_and_cancelled(idle: Serving) -> None:
    flows = [NAP, {**NAP, "key": "mine", "tags": {"tenant": "b"}}, {"action": "srv_pay", "inputs": {"cents": 3}}]
    body = {"name": "night 1", "flows": flows, "on_done": NAP, "tags": {"tenant": "a"}}
    first = add(idle, **body)
    assert first.status_code == 201, first.text
    assert first.headers["Location"] == "/v1/batches/night%201"
    batch = first.json()
    assert (batch["total"], batch["counts"]["ready"], batch["is_done"], batch["done_at"]) == (3, 3, False, None)
    again = add(idle, **body)
    assert (again.status_code, again.json()) == (200, batch)
    assert idle.client.get("/v1/batches/night 1").json() == batch
    listed = idle.client.get("/v1/flows", params={"batch": "night 1"}).json()["flows"]
    assert sorted(one["key"] for one in listed) == ["batch:night 1:0", "batch:night 1:2", "batch:night 1:mine"]
    tagged = idle.client.get("/v1/flows", params={"tag": "tenant=b"}).json()["flows"]
    assert [(one["tags"], one["batch"]) for one in tagged] == [({"tenant": "b"}, "night 1")]
    said = idle.client.post("/v1/batches/night 1/cancel", json=WHY).json()
    assert said == {"name": "night 1", "requested": "cancel", "count": 3, "done": 3}
    [entry] = idle.client.get("/v1/audit", params={"action": "batch.cancel"}).json()["entries"]
    assert entry["target"] == "night 1"


@pytest.mark.promise("E7")
def test_what_failed_is_redriven(server: Serving) -> None:
    add(server, name="b", flows=[{"action": "srv_refuse", "inputs": {"why": "closed"}}])
    path = "/v1/batches/b"
    batch = server.until(lambda: server.client.get(path).json(), lambda batch: batch["done_at"] is not None)
    assert batch["counts"]["failed"] == 1
    assert server.client.post(f"{path}/redrive", json=WHY).json()["done"] == 1


def test_batches_are_listed_page_by_page(idle: Serving) -> None:
    for name in ("a", "b", "c"):
        add(idle, name=name, flows=[NAP] if name == "b" else [])
    page = idle.client.get("/v1/batches", params={"limit": 2}).json()
    rest = idle.client.get("/v1/batches", params={"limit": 2, "cursor": page["next"]}).json()
    assert [one["name"] for one in [*page["batches"], *rest["batches"]]] == ["c", "b", "a"]
    assert rest["next"] is None
    open_ones = idle.client.get("/v1/batches", params={"done": "false"}).json()["batches"]
    assert [one["name"] for one in open_ones] == ["b"]


@pytest.mark.promise("E9")
def test_bulk_actions_select_by_tag_and_batch(idle: Serving) -> None:
    add(idle, name="b", flows=[NAP, NAP])
    for tenant in ("acme", "other"):
        idle.client.post("/v1/flows", json={**NAP, "tags": {"tenant": tenant}})
    for chosen, count in (({"batch": "b"}, 2), ({"tag": ["tenant=acme"]}, 1), ({"batch": "x"}, 0)):
        body = {"action": "cancel", "filter": chosen, "dry_run": True, **WHY}
        assert idle.client.post("/v1/flows/bulk", json=body).json()["count"] == count


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"name": "a/b", "flows": []}, 400, "/name"),
        ({"name": "b", "flows": [{"goals": ["reserve"]}]}, 422, "/flows/0"),
        ({"name": "b", "flows": [NAP, {"workflow": "Nobody"}]}, 422, "/flows/1/workflow"),
        ({"name": "b", "flows": [NAP], "on_done": {**NAP, "delay": 5}}, 422, "/on_done"),
        ({"name": "b", "flows": [NAP], "tags": {"a": ""}}, 400, "/tags"),
        ({"name": "taken", "flows": [NAP, NAP]}, 409, "/name"),
    ],
)
def test_a_wrong_batch_is_refused(idle: Serving, body: Any, status: int, pointer: str) -> None:
    add(idle, name="taken", flows=[NAP])
    answer = add(idle, **body)
    assert answer.status_code == status, answer.text
    assert answer.json()["pointer"].startswith(pointer)
    assert idle.client.get("/v1/batches/b").status_code == 404
