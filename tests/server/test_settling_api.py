"""Dead letters, retries, queues and workers over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, serving

from redrive.server.requests.cursors import encode_cursor
from redrive.stores.audit import AuditQuery
from redrive.stores.records import RetryQuery

SAID = {"by": "anna", "why": "the bank is back"}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


def dead(server: Serving, why: str = "no", **more: Any) -> str:
    flow_id = server.start("action:srv_refuse", {"why": why}, **more)
    assert server.finished(flow_id)["status"] == "failed"
    return flow_id


def listed(server: Serving, **parameters: Any) -> list[str]:
    page = server.client.get("/v1/dead-letters", params=parameters).json()
    return [letter["flow_id"] for letter in page["dead_letters"]]


def test_a_dead_letter_shows_why_it_is_dead_without_secrets(server: Serving) -> None:
    flow_id = dead(server, f"password={shop.SECRET}")
    letter = server.client.get(f"/v1/dead-letters/{flow_id}").json()
    assert (letter["kind"], letter["step"], letter["attempts"]) == ("permanent", "srv_refuse", 1)
    assert (letter["error_type"].rpartition(".")[2], letter["state"], letter["by"]) == ("Permanent", "dead", None)
    assert shop.SECRET not in str(letter)
    problem(server.client.get(f"/v1/dead-letters/{NO_FLOW}"), 404)


def test_dead_letters_are_listed_in_pages_by_filters(server: Serving) -> None:
    ids = [dead(server, queue="graveyard") for _ in range(3)]
    first = server.client.get("/v1/dead-letters", params={"queue": "graveyard", "limit": 2}).json()
    second = server.client.get(
        "/v1/dead-letters", params={"queue": "graveyard", "limit": 2, "cursor": first["next"]}
    ).json()
    found = [letter["flow_id"] for page in (first, second) for letter in page["dead_letters"]]
    assert (sorted(found), second["next"]) == (sorted(ids), None)
    for made_up in ("", "x", "nan x", "inf x", "-1 x", "1e300 x"):
        assert problem(server.client.get("/v1/dead-letters", params={"cursor": encode_cursor(made_up)}), 422)
    assert listed(server, queue="graveyard", kind="exhausted") == []
    assert listed(server, queue="graveyard", state="redriven") == []
    assert problem(server.client.get("/v1/dead-letters?state=alive"), 400)["parameter"] == "state"


@pytest.mark.parametrize(("verb", "state"), [("redrive", "redriven"), ("discard", "discarded")])
def test_one_is_settled_with_who_and_why_and_once_only(server: Serving, verb: str, state: str) -> None:
    flow_id = dead(server, queue=f"one-{verb}")
    answer = server.client.post(f"/v1/dead-letters/{flow_id}/{verb}", json=SAID)
    assert answer.status_code == 200, answer.text
    if verb == "discard":
        letter = answer.json()
        assert (letter["state"], letter["by"], letter["why"]) == (state, "anna", "the bank is back")
        again = problem(server.client.post(f"/v1/dead-letters/{flow_id}/{verb}", json=SAID), 409)
        assert f"it was {state} by anna" in again["detail"]
    else:
        notes = server.until(
            lambda: server.client.get(f"/v1/flows/{flow_id}/explain").json()["timeline"],
            lambda entries: any(entry.get("what") == "redriven" for entry in entries),
        )
        (note,) = [entry for entry in notes if entry.get("what") == "redriven"]
        assert (note["by"], note["why"]) == ("anna", "the bank is back")
    problem(server.client.post(f"/v1/dead-letters/{NO_FLOW}/{verb}", json=SAID), 404)


def test_many_are_settled_by_their_flows_by_a_filter_or_all() -> None:
    with serving() as server:
        one, two, three = dead(server, queue="a"), dead(server, queue="b"), dead(server, queue="c")

        def discard(**which: Any) -> Any:
            return server.client.post("/v1/dead-letters/discard", json={**which, **SAID}).json()

        assert discard(all=True, dry_run=True) == {"settled": [], "count": 3, "more": False}
        assert discard(flows=[one, one, NO_FLOW], dry_run=True) == {"settled": [], "count": 1, "more": False}
        assert discard(filter={"queue": "b"}, dry_run=True) == {"settled": [], "count": 1, "more": False}
        assert discard(flows=[one, one, NO_FLOW]) == {"settled": [one], "count": 1, "more": False}
        assert discard(filter={"queue": "b"}) == {"settled": [two], "count": 1, "more": False}
        assert discard(all=True) == {"settled": [three], "count": 1, "more": False}
        assert discard(all=True) == {"settled": [], "count": 0, "more": False}


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (SAID, 422, ""),
        ({**SAID, "all": True, "filter": {}}, 422, ""),
        ({**SAID, "flows": []}, 400, "/flows"),
        ({**SAID, "flows": [1]}, 400, "/flows/0"),
        ({**SAID, "filter": {"stp": "a"}}, 400, "/filter/stp"),
        ({"all": True}, 400, "/why"),
        ({"all": "yes", **SAID}, 400, "/all"),
    ],
)
def test_settling_says_what_it_lacks(server: Serving, body: Any, status: int, pointer: str) -> None:
    said = problem(server.client.post("/v1/dead-letters/redrive", json=body), status)
    assert said.get("pointer", "") == pointer


@pytest.mark.promise("T4")
def test_what_waits_shows_whether_and_when_it_may_be_tried_again(server: Serving) -> None:
    flow_id = server.start("action:srv_flaky")
    (row,) = server.until(lambda: server.client.get("/v1/retries", params={"flow_id": flow_id}).json()["retries"], bool)
    assert (row["step"], row["status"], row["attempt_number"], row["max_retries"]) == ("srv_flaky", "waiting", 1, 8)
    assert (row["retryable"], row["dependencies_satisfied"]) == (True, True)
    assert (row["retry_eligible"], row["ready"], row["reason"]) == (True, False, "waits for its time")
    assert "delivery_token" not in row
    (item,) = server.flow(flow_id)["steps"][0]["items"]
    assert (item["attempts"], item["max_attempts"], item["next_retry_at"]) == (1, 9, row["scheduled_at"])
    for field in ("retry_eligible", "ready", "reason"):
        assert item[field] == row[field], field
    (stored,) = server.ask(lambda app: app.retries(RetryQuery(flow_id=flow_id)))
    own = {"retry_eligible", "ready", "reason"}
    assert {*row} - own == {*stored.__struct_fields__} - {"delivery_token", "reason"}


def test_queues_are_listed_and_limited(server: Serving) -> None:
    answer = server.client.put("/v1/queues/mail", json={"limit": 3})
    assert (answer.status_code, answer.json()["limit"]) == (200, 3)
    queues = {queue["name"]: queue for queue in server.client.get("/v1/queues").json()["queues"]}
    states = ("ready", "waiting", "due", "running", "paused", "parked")
    assert queues["mail"] == {
        "name": "mail",
        "pause": None,
        **dict.fromkeys(states, 0),
        **dict.fromkeys(("per_key", "rate", "key_rate", "aging")),
        "limit": 3,
    }
    assert server.client.put("/v1/queues/mail", json={"limit": None}).json()["limit"] is None
    for limit in (0, -1, "many", 1.5):
        assert problem(server.client.put("/v1/queues/mail", json={"limit": limit}), 400)["pointer"] == "/limit"
    assert "name what to set: limit, per_key" in problem(server.client.put("/v1/queues/mail", json={}), 422)["detail"]
    for queue in ("x" * 201, "a%1b%5B2Jb", "a%0Ab"):
        assert problem(server.client.put(f"/v1/queues/{queue}", json={"limit": 1}), 422)["parameter"] == "queue"


@pytest.mark.promise("E8")
def test_a_queue_is_configured(server: Serving) -> None:
    def put(**settings: Any) -> Any:
        return server.client.put("/v1/queues/set", json=settings)

    assert put(per_key=2, rate="100/m", key_rate="5/s", aging="10m").status_code == 200
    answer = put(rate=None).json()
    assert {name: answer[name] for name in ("limit", "per_key", "rate", "key_rate", "aging")} == {
        "limit": None,
        "per_key": 2,
        "rate": None,
        "key_rate": "5/s",
        "aging": 600.0,
    }
    for rate in ("100", "0/m", "5/fortnight", "m/5", "1/2000d"):
        assert problem(put(rate=rate), 422)["pointer"] == "/rate"
    assert problem(put(aging="soon"), 422)["pointer"] == "/aging"
    assert problem(put(per_key=0), 400)["pointer"] == "/per_key"
    flow = server.start("action:srv_pay", {"cents": 1}, queue="set", concurrency_key="acme")
    assert server.finished(flow)["concurrency_key"] == "acme"


@pytest.mark.promise("E8")
def test_a_key_is_unique_for_a_time_over_http(server: Serving) -> None:
    def post(**body: Any) -> Any:
        return server.client.post("/v1/flows", json={"action": "srv_pay", "inputs": {"cents": 1}, **body})

    first = post(key="once", unique_for="10m")
    assert (first.status_code, post(key="once", unique_for="10m").json()["id"]) == (201, first.json()["id"])
    assert post(key="later", debounce=30).json()["status"] == "waiting"
    assert problem(post(unique_for="10m"), 422)["pointer"] == "/unique_for"
    assert problem(post(key="k", debounce="soon"), 422)["pointer"] == "/debounce"
    assert problem(post(key="k", concurrency_key="a\nb"), 400)["pointer"] == "/concurrency_key"


def test_a_queue_is_paused_and_resumed(server: Serving) -> None:
    why = {"why": "the provider is down", "by": "anna"}
    paused = server.client.post("/v1/queues/sms/pause", json=why)
    assert paused.status_code == 200
    pause = paused.json()["pause"]
    assert (pause["why"], "anna" in pause["by"]) == ("the provider is down", True)
    assert server.client.post("/v1/queues/sms/pause", json={"why": "again"}).json()["pause"] == pause
    flow = server.start("action:srv_pay", {"cents": 1}, queue="sms")
    explained = server.client.get(f"/v1/flows/{flow}/explain").json()
    assert explained["headline"].startswith("held: queue sms was paused by anna")
    assert server.client.post("/v1/queues/sms/resume", json=why).json()["pause"] is None
    assert server.finished(flow)["status"] == "completed"
    actions = [(one.action, one.target) for one in server.ask(lambda app: app.store.list_audit_entries(AuditQuery()))]
    assert actions.count(("queue.pause", "sms")) == 2
    assert actions.count(("queue.resume", "sms")) == 1
    assert problem(server.client.post("/v1/queues/sms/pause", json={}), 400)["pointer"] == "/why"
    assert problem(server.client.post("/v1/queues/a%0Ab/pause", json=why), 422)["parameter"] == "queue"


def test_workers_are_listed(server: Serving) -> None:
    (worker,) = server.until(lambda: server.client.get("/v1/workers").json()["workers"], bool)
    assert worker["alive"]
    assert "workflow:SrvOrder" in worker["definitions"]


@pytest.mark.parametrize("why", ["\x00", "a\x00b", " ", ""])
def test_a_reason_that_says_nothing_or_cannot_be_stored_is_refused(server: Serving, why: str) -> None:
    flow_id = dead(server)
    for path in (f"/v1/dead-letters/{flow_id}/redrive", f"/v1/flows/{flow_id}/cancel"):
        problem(server.client.post(path, json={"why": why, "by": "anna"}), 400)
    problem(server.client.post(f"/v1/flows/{flow_id}/cancel", json={"why": "late", "by": "anna\n"}), 400)
