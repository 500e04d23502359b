"""Keys expire and rotate, say when they were used, and what is done leaves a trail."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop  # noqa: F401 - it registers what the flows run
from tests.server.serving import Serving, problem, serving

from redrive.errors import StoreUnavailableError
from redrive.stores.interface import Store
from redrive.stores.memory.store import MemoryStore
from redrive.stores.registry_rows import KeyRow

WHY = {"why": "seen to it", "by": "anna"}
STEP = {"name": "audit_step", "endpoint": "https://shop.example.com/x"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(params=["memory", "sqlite"])
def server(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Serving]:
    store = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/app.db"
    with serving(store, worker=False) as server:
        yield server


def keys_of(server: Serving) -> list[KeyRow]:
    return server.ask(lambda app: app.store.list_keys())


@pytest.mark.promise("X10")
def test_an_expired_key_is_refused_and_its_streams_end(server: Serving) -> None:
    flow = server.start("action:srv_pay", {"cents": 1})
    server.key("admin", "other")
    key = server.key("read", "brief", expires_at=time.time() + 3600)
    assert server.client.get("/v1/flows", headers=bearer(key)).status_code == 200
    asked = {**bearer(key), "Accept": "text/event-stream"}
    with server.client.stream("GET", f"/v1/flows/{flow}/events", headers=asked, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        assert server.ask(lambda app: app.store.expire_key(key.split("_")[1], time.time()))
        assert not [line for line in lines if line.startswith("event")]
    assert "has expired" in problem(server.client.get("/v1/flows", headers=bearer(key)), 401)["detail"]


@pytest.mark.promise("X10")
def test_when_all_keys_have_expired_nobody_gets_in(server: Serving) -> None:
    server.key("admin", "gone", expires_at=time.time() - 1)
    problem(server.client.get("/v1/flows"), 401)


@pytest.mark.promise("X10")
def test_the_last_use_of_a_key_is_noted(server: Serving) -> None:
    used, unused = server.key("read", "used"), server.key("read", "unused")
    began = time.time()
    assert server.client.get("/v1/flows", headers=bearer(used)).status_code == 200
    problem(server.client.get("/v1/flows", headers=bearer(unused[:-4] + "0000")), 401)
    times = {key.name: key.used_at for key in keys_of(server)}
    assert times["unused"] is None
    assert times["used"] is not None
    assert began - 1 <= times["used"] <= time.time() + 1


@pytest.mark.promise("X10")
def test_what_is_done_leaves_a_trail(server: Serving) -> None:
    flow = server.start("action:srv_pay", {"cents": 1})
    admin, operate = server.key("admin", "root"), server.key("operate", "night shift")
    ask = server.client.request
    assert ask("POST", "/v1/steps", json=STEP, headers=bearer(admin)).is_success
    assert ask("PUT", "/v1/queues/mail", json={"limit": 3}, headers=bearer(admin)).is_success
    assert ask("POST", f"/v1/flows/{flow}/pause", json=WHY, headers=bearer(operate)).is_success
    problem(ask("POST", f"/v1/flows/{flow}/steps/none/reset", json=WHY, headers=bearer(operate)), 404)
    assert ask("DELETE", "/v1/steps/audit_step", headers=bearer(admin)).is_success
    problem(ask("POST", f"/v1/flows/{flow}/cancel", json=WHY, headers=bearer(server.key("read"))), 403)
    assert ask("GET", f"/v1/flows/{flow}", headers=bearer(admin)).is_success
    page = ask("GET", "/v1/audit", headers=bearer(admin)).json()
    assert page["next"] is None
    root, night = (f"key {name} ({key.split('_')[1]})" for name, key in (("root", admin), ("night shift", operate)))
    told = [tuple(one[field] for field in ("actor", "origin", "action", "target")) for one in page["entries"]]
    assert told == [
        (root, "http from 127.0.0.1", "step.drop", "audit_step"),
        *[(f"{night}, as 'anna'", "http from 127.0.0.1", "step.reset", f"{flow}/none")] * 2,
        (f"{night}, as 'anna'", "http from 127.0.0.1", "flow.pause", flow),
        (root, "http from 127.0.0.1", "queue.limit", "mail"),
        (root, "http from 127.0.0.1", "step.register", "audit_step"),
    ]
    assert [one["detail"][:12] for one in page["entries"]] == [
        *("", "refused: 404", "seen to it", "seen to it", "limit: 3", ""),
    ]
    first = ask("GET", "/v1/audit", params={"limit": 2}, headers=bearer(admin)).json()
    rest = ask("GET", "/v1/audit", params={"before": first["next"]}, headers=bearer(admin)).json()
    assert first["entries"] + rest["entries"] == page["entries"]
    paused = ask("GET", "/v1/audit", params={"target": flow, "action": "flow.pause"}, headers=bearer(admin)).json()
    assert len(paused["entries"]) == 1
    about = ask("GET", "/v1/audit", params={"target": flow}, headers=bearer(admin)).json()["entries"]
    assert [one["action"] for one in about] == ["step.reset", "step.reset", "flow.pause"]


@pytest.mark.promise("X10")
@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_each_of_many_flows_has_its_entry(verb: str) -> None:
    with serving() as server:
        flows = [server.start("action:srv_refuse", {"why": "no"}) for _ in range(5)]
        for flow in flows:
            server.finished(flow)
        settled = server.client.post(f"/v1/dead-letters/{verb}", json={"all": True, **WHY})
        assert sorted(settled.json()["settled"]) == sorted(flows)
        for flow in flows:
            (entry,) = server.client.get("/v1/audit", params={"target": flow}).json()["entries"]
            assert (entry["action"], entry["target"], entry["detail"]) == (f"dead.{verb}", flow, "seen to it")
            assert entry["actor"] == "someone on this machine, as 'anna'"


@pytest.mark.promise("X10")
@pytest.mark.parametrize(
    "by", ["Authorization: Bearer", "password:", "key root (0123456789ab)", "'", "x" * 200, "\u202e"]
)
def test_no_name_hides_or_replaces_the_key(server: Serving, by: str) -> None:
    flow = server.start("action:srv_pay", {"cents": 1})
    admin, operate = server.key("admin", "root"), server.key("operate", "n" * 100)
    pausing = server.client.post(f"/v1/flows/{flow}/pause", json={**WHY, "by": by}, headers=bearer(operate))
    assert pausing.is_success, pausing.text
    (entry,) = server.client.get("/v1/audit", headers=bearer(admin)).json()["entries"]
    key, _, claimed = entry["actor"].partition(", as ")
    assert key == f"key {'n' * 100} ({operate.split('_')[1]})"
    assert claimed[0] == claimed[-1] in ("'", '"')
    assert len(claimed) <= 82
    assert entry["actor"].isprintable()


class Unaudited(MemoryStore):
    """A store whose audit log cannot be written."""

    async def add_audit_entries(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailableError("no room")


@pytest.mark.promise("X10")
def test_nothing_is_done_that_cannot_be_noted() -> None:
    store: Store = Unaudited()
    with serving(store, worker=False) as server:
        flow = server.start("action:srv_pay", {"cents": 1})
        problem(server.client.post(f"/v1/flows/{flow}/cancel", json=WHY), 503)
        problem(server.client.post("/v1/steps", json=STEP), 503)
        assert server.client.get("/v1/steps").json() == {"steps": []}
        assert server.ask(lambda app: app.store.count_unread(flow)) == 0
