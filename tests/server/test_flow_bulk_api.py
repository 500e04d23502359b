"""Many flows at once: the filter selects, a dry run only counts, limited keys reach only theirs, and it is audited."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop
from tests.server.serving import Serving, problem, serving

from redrive.client.app import App
from redrive.server.resources import flow_bulk

WHY = {"why": "the bank is back", "by": "anna"}


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@pytest.fixture
def idle() -> Iterator[Serving]:
    """A server whose flows stay as they are."""
    with serving(worker=False) as server:
        yield server


def bulk(server: Serving, action: str, **more: Any) -> Any:
    answer = server.client.post("/v1/flows/bulk", json={"action": action, **WHY, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def start_many(server: Serving, number: int, queue: str = "default") -> list[str]:
    async def start(app: App) -> list[str]:
        return [(await app.start(shop.pay(cents=1), queue=queue)).id for _ in range(number)]

    return server.ask(start)


def messages(server: Serving) -> int:
    return server.ask(lambda app: _messages(app))


async def _messages(app: App) -> int:
    flows = await app.flows()
    counted = await asyncio.gather(*(app.store.count_unread(one.id) for one in flows))
    return sum(counted)


def test_flows_that_wait_for_a_retry_are_retried_and_others_are_not_counted_as_done(server: Serving) -> None:
    waiting = [server.start("action:srv_flaky") for _ in range(3)]
    server.start("workflow:SrvNap", {"seconds": 3600})
    server.until(lambda: server.client.get("/v1/retries").json()["retries"], lambda rows: len(rows) == 3)
    said = bulk(server, "retry", filter={"status": ["waiting", "running"]}, dry_run=True)
    assert said == {"count": 4, "done": 0, "more": False, "next": None}
    said = bulk(server, "retry", filter={"definition": "srv_flaky"})
    assert said == {"count": 3, "done": 3, "more": False, "next": None}
    for flow_id in waiting:
        events = server.until(
            lambda flow_id=flow_id: server.client.get(f"/v1/flows/{flow_id}/events").json()["events"],  # type: ignore[misc]  # mypy cannot infer it
            lambda events: any(one["event"]["type"] == "retried_now" for one in events),
        )
        [event] = [one["event"] for one in events if one["event"]["type"] == "retried_now"]
        assert event == {"type": "retried_now", "by": "anna", "why": "the bank is back"}
    said = bulk(server, "retry", filter={"definition": "SrvNap"})
    assert said == {"count": 1, "done": 0, "more": False, "next": None}


def test_each_action_is_for_flows_in_a_state_for_it(server: Serving) -> None:
    flow = server.start("workflow:SrvNap", {"seconds": 3600})
    server.finished(server.start("action:srv_pay", {"cents": 1}))
    only = {"queue": "default"}
    assert bulk(server, "resume", filter=only)["count"] == 0
    assert bulk(server, "pause", filter=only) == {"count": 1, "done": 1, "more": False, "next": None}
    server.until(lambda: server.flow(flow)["status"], lambda status: status == "paused")
    assert bulk(server, "pause", filter=only)["count"] == 0
    assert bulk(server, "retry", filter=only)["count"] == 0
    # A status that the action is not for selects nothing, not everything.
    assert bulk(server, "cancel", filter={"status": ["completed"]})["count"] == 0
    assert bulk(server, "resume", filter=only)["done"] == 1
    server.until(lambda: server.flow(flow)["status"], lambda status: status in ("waiting", "running"))
    assert bulk(server, "cancel", filter=only)["done"] == 1
    assert server.finished(flow)["status"] == "cancelled"


def test_a_dry_run_changes_nothing_and_is_not_audited(idle: Serving) -> None:
    start_many(idle, 5)
    assert bulk(idle, "cancel", filter={"status": ["ready"]}, dry_run=True)["count"] == 5
    assert messages(idle) == 0
    assert idle.client.get("/v1/audit").json()["entries"] == []


def test_what_one_request_does_is_bounded_and_the_next_one_goes_on(
    idle: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_bulk, "PAGE", 2)
    monkeypatch.setattr(flow_bulk, "MOST_DONE", 4)
    monkeypatch.setattr(flow_bulk, "MOST_COUNTED", 8)
    start_many(idle, 9)
    counted = bulk(idle, "pause", filter={"queue": "default"}, dry_run=True)
    assert (counted["count"], counted["more"]) == (8, True)
    counts, cursor = [], None
    while True:
        said = bulk(idle, "pause", filter={"queue": "default"}, **({"cursor": cursor} if cursor else {}))
        counts.append(said["done"])
        assert said["more"] is (said["next"] is not None)
        if not said["more"]:
            break
        cursor = said["next"]
    assert counts == [4, 4, 1]
    # Each was asked once.
    assert messages(idle) == 9


def test_each_flow_is_in_the_audit_log_before_anything_is_done(idle: Serving) -> None:
    flows = start_many(idle, 3)
    bulk(idle, "cancel", filter={"status": ["ready"]})
    entries = idle.client.get("/v1/audit").json()["entries"]
    assert {one["target"] for one in entries} == set(flows)
    assert {(one["action"], one["detail"]) for one in entries} == {("flow.cancel", "the bank is back")}


def test_a_limited_key_reaches_only_its_flows(idle: Serving) -> None:
    mail, _ = start_many(idle, 2, "mail"), start_many(idle, 3, "other")
    key = idle.key("operate", "mailer", queues=("mail",))
    body = {"action": "cancel", "filter": {"status": ["ready"]}, **WHY}
    said = idle.client.post("/v1/flows/bulk", json=body, headers={"Authorization": f"Bearer {key}"}).json()
    assert (said["count"], said["done"]) == (2, 2)
    admin = {"Authorization": f"Bearer {idle.key('admin')}"}
    entries = idle.client.get("/v1/audit", headers=admin).json()["entries"]
    assert {one["target"] for one in entries} == set(mail)


@pytest.mark.parametrize("empty", [{}, {"status": []}])
def test_an_empty_filter_is_refused(idle: Serving, empty: dict[str, Any]) -> None:
    start_many(idle, 1)
    answer = idle.client.post("/v1/flows/bulk", json={"action": "cancel", "filter": empty, **WHY})
    assert problem(answer, 422)["pointer"] == "/filter"
    assert messages(idle) == 0


def test_the_reason_and_known_fields_are_required(idle: Serving) -> None:
    body = {"action": "cancel", "filter": {"queue": "mail"}}
    problem(idle.client.post("/v1/flows/bulk", json=body), 400)
    problem(idle.client.post("/v1/flows/bulk", json={**body, **WHY, "action": "delete"}), 400)
    problem(idle.client.post("/v1/flows/bulk", json={**body, **WHY, "filter": {"colour": "red"}}), 400)
    problem(idle.client.post("/v1/flows/bulk", json={**body, **WHY, "cursor": "nonsense"}), 422)


def test_one_flow_is_retried_now_and_refused_when_nothing_waits(server: Serving) -> None:
    flow = server.start("action:srv_flaky")
    server.until(lambda: server.client.get("/v1/retries").json()["retries"], bool)
    answer = server.client.post(f"/v1/flows/{flow}/retry", json=WHY)
    assert (answer.status_code, answer.json()) == (202, {"id": flow, "requested": "retry"})
    server.until(lambda: server.flow(flow)["steps"][0]["items"][0]["attempts"], lambda attempts: attempts == 2)
    nap = server.start("workflow:SrvNap", {"seconds": 3600})
    server.until(lambda: server.flow(nap)["status"], lambda status: status in ("waiting", "running"))
    refused = server.client.post(f"/v1/flows/{nap}/retry", json=WHY)
    assert "nothing to retry now" in problem(refused, 409)["detail"]
    entries = server.client.get("/v1/audit", params={"action": "flow.retry"}).json()["entries"]
    assert [(one["target"], one["detail"].partition(":")[0]) for one in entries] == [
        (nap, "refused"),
        (nap, "the bank is back"),
        (flow, "the bank is back"),
    ]


@pytest.mark.promise("E9")
def test_the_policy_of_one_flow_is_changed_and_a_wrong_one_is_refused(server: Serving) -> None:
    flow = server.start("action:srv_flaky")
    server.until(lambda: server.client.get("/v1/retries").json()["retries"], bool)
    path = f"/v1/flows/{flow}/policy"
    assert "attemps" in problem(server.client.post(path, json={**WHY, "policy": "attemps: 10"}), 422)["detail"]
    absent = server.client.post(path, json={**WHY, "policy": "attempts: 10", "step": "nobody"})
    assert "no work of step 'nobody' under way" in problem(absent, 409)["detail"]
    answer = server.client.post(path, json={**WHY, "policy": "attempts: 10"})
    assert (answer.status_code, answer.json()) == (202, {"id": flow, "requested": "policy"})
    server.until(
        lambda: server.client.get(f"/v1/flows/{flow}/events").json()["events"],
        lambda events: any(one["event"]["type"] == "policy_changed" for one in events),
    )
    assert server.client.get("/v1/retries").json()["retries"][0]["max_retries"] == 9
