"""What a key shows: payloads and messages to those who may see them, their sizes to all others."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.server import shop  # noqa: F401 - it registers what the flows run
from tests.server.serving import Serving, problem, serving

import redrive
from redrive.server.access.api_keys import Role
from redrive.testing import FlakyServer, Reply

CANARY = "kanarie-4711"
"""In every value and text that a flow works with."""
WHY = {"why": "seen to it", "by": "anna"}
STEP = {
    "name": "payload_step",
    "inputs": {
        "order_id": "string",
        "pinned": {"type": "string", "value": f"{CANARY}-constant"},
        "other": {"type": "string", "default": f"{CANARY}-default"},
    },
    "outputs": {"parcel": "string"},
    "work_config": {"max_retries": 0},
}


@redrive.action(
    name="payload_fail", retry=redrive.Policy(attempts=2, backoff=redrive.constant(0.01), retry_on=KeyError)
)
def fail(secret: str) -> str:
    try:
        raise LookupError(f"{secret}-cause")
    except LookupError as error:
        raise KeyError(secret, {"more": secret}) from error


@redrive.action(name="payload_snooze")
def snooze(secret: str) -> str:
    if redrive.current_attempt().details is None:
        redrive.current_attempt().heartbeat({"at": secret})
    raise redrive.Snooze(3600, f"{secret}-snooze")


@redrive.workflow(name="PayloadEcho")
class PayloadEcho(redrive.Workflow):
    async def run(self, secret: str) -> dict[str, str]:
        return {"said": secret}


@redrive.workflow(name="PayloadFail")
class PayloadFail(redrive.Workflow):
    async def run(self, secret: str) -> None:
        raise RuntimeError(f"{secret}-in-code")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """With flows of every kind and end, each of which has the canary in all that it works with."""
    refused = Reply(status=422, headers={"Retry-After": f"{CANARY}-later"}, body={"error": f"{CANARY}-refused"})
    with FlakyServer(refused) as handler, serving() as server:
        assert server.client.post("/v1/steps", json={**STEP, "endpoint": f"{handler.url}/x"}).is_success
        for started in (
            {"workflow": "PayloadEcho", "inputs": {"secret": CANARY}},
            {"workflow": "PayloadFail", "inputs": {"secret": CANARY}},
            {"action": "payload_fail", "inputs": {"secret": CANARY}},
            {"goals": ["payload_step"], "inputs": {"order_id": CANARY}},
        ):
            answer = server.client.post("/v1/flows", json=started)
            assert answer.status_code == 201, answer.text
            server.finished(answer.json()["id"])
        waiting = server.start("action:payload_snooze", {"secret": CANARY})
        server.until(lambda: server.client.get(f"/v1/flows/{waiting}/events").text, lambda text: "snooze" in text)
        server.key("admin", "first")
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def looks(server: Serving, headers: dict[str, str]) -> Iterator[tuple[str, httpx.Response]]:
    """All that a GET shows: every endpoint, for every flow, pages and streams."""
    paths = server.client.get("/openapi.json").json()["paths"]
    flows = [one["id"] for one in server.client.get("/v1/flows", headers=headers).json()["flows"]]
    dead = [one["flow_id"] for one in server.client.get("/v1/dead-letters", headers=headers).json()["dead_letters"]]
    assert len(flows) == 5
    assert len(dead) == 3
    for path, methods in paths.items():
        if "get" not in methods:
            continue
        names = dead if "dead-letters" in path else flows
        for one in names if "{flow_id}" in path else ["payload_step"]:
            url = path.replace("{flow_id}", one).replace("{name}", one)
            yield path, server.client.get(url, headers=headers)
            if path.endswith("/events"):
                asked = {**headers, "Accept": "text/event-stream"}
                with server.client.stream("GET", url, headers=asked) as answer:
                    text = ""
                    for line in answer.iter_lines():
                        text += line + "\n"
                        if line.startswith("event: end") or "attempt_returned" in line:
                            break
                yield f"{path} as a stream", httpx.Response(200, text=text)


@pytest.mark.promise("X10")
def test_read_shows_no_payload_anywhere(server: Serving) -> None:
    headers = bearer(server.key("read", "board"))
    seen = dict.fromkeys(path for path, _ in looks(server, headers))
    assert "/v1/flows/{flow_id}/events as a stream" in seen
    leaks = [(path, answer.text) for path, answer in looks(server, headers) if CANARY in answer.text]
    assert leaks == []


@pytest.mark.promise("X10")
@pytest.mark.parametrize("role", ["read:payload", "operate", "admin"])
def test_the_roles_above_see_payloads(server: Serving, role: Role) -> None:
    seen = {path for path, answer in looks(server, bearer(server.key(role))) if CANARY in answer.text}
    assert seen == {
        "/v1/steps",
        "/v1/steps/{name}",
        "/v1/flows/{flow_id}",
        "/v1/flows/{flow_id}/explain",
        "/v1/flows/{flow_id}/events",
        "/v1/flows/{flow_id}/events as a stream",
        "/v1/dead-letters",
        "/v1/dead-letters/{flow_id}",
        "/v1/dead-letters/groups",
    }


@pytest.mark.promise("X10")
def test_read_shows_the_size_of_what_it_hides_and_all_the_rest(server: Serving) -> None:
    headers = bearer(server.key("read", "board"))
    flows = {
        one["definition"]: server.client.get(f"/v1/flows/{one['id']}", headers=headers).json()
        for one in server.client.get("/v1/flows", headers=headers).json()["flows"]
    }
    size = len(json.dumps({"said": CANARY}, separators=(",", ":")))
    assert flows["workflow:PayloadEcho"]["result"] == {"redacted": True, "bytes": size}
    error = flows["action:payload_fail"]["error"]
    assert (error["type"], error["message"][:9]) == ("KeyError", "redacted ")
    (item,) = flows["action:payload_fail"]["steps"][0]["items"]
    assert item["attempts"] == 2
    assert item["error"].startswith("KeyError: redacted (")
    explained = server.client.get(f"/v1/flows/{flows['action:payload_fail']['id']}/explain", headers=headers).json()
    assert explained["headline"].startswith(
        "failed for good: payload_fail gave up after 2 attempts (exhausted): KeyError"
    )
    (entry,) = [one for one in explained["timeline"] if one["type"] == "item"]
    assert re.fullmatch(r"redacted \([0-9]+ bytes\)", entry["arguments"])
    echoed = server.client.get(f"/v1/flows/{flows['workflow:PayloadEcho']['id']}/explain", headers=headers).json()
    assert f": redacted ({size} bytes)" in echoed["headline"]
    assert [attempt["error_type"] for attempt in entry["attempts"]] == ["KeyError", "KeyError"]
    step = server.client.get("/v1/steps/payload_step", headers=headers).json()
    assert step["inputs"]["pinned"] == {
        "type": "string",
        "value": {"redacted": True, "bytes": len(f'"{CANARY}-constant"')},
    }
    assert step["inputs"]["order_id"] == "string"


# Limits


@pytest.fixture(scope="module")
def shared() -> Iterator[Serving]:
    """A server of two teams: mail and shop."""
    with serving(worker=False) as server:
        for queue, cents in (("mail", 1), ("mail", 2), ("shop", 3)):
            server.start("action:srv_pay", {"cents": cents}, queue=queue)
        server.start("action:srv_flaky", queue="mail")
        server.key("admin", "first")
        yield server


def listed(server: Serving, key: str, **query: Any) -> list[tuple[str, str]]:
    answer = server.client.get("/v1/flows", params=query, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    return [(one["definition"], one["queue"]) for one in answer.json()["flows"]]


@pytest.mark.promise("X10")
def test_a_limited_key_sees_the_flows_of_its_queues_and_definitions(shared: Serving) -> None:
    mail = shared.key("operate", "mail", queues=["mail"])
    pay = shared.key("operate", "pay", definitions=["srv_pay"])
    both = shared.key("operate", "both", queues=["mail"], definitions=["action:srv_flaky"])
    assert listed(shared, mail) == [("action:srv_flaky", "mail"), *[("action:srv_pay", "mail")] * 2]
    assert listed(shared, pay) == [("action:srv_pay", "shop"), *[("action:srv_pay", "mail")] * 2]
    assert listed(shared, both) == [("action:srv_flaky", "mail")]
    assert listed(shared, mail, queue="shop") == []
    page = shared.client.get("/v1/flows", params={"limit": 1}, headers=bearer(mail)).json()
    found = [one["id"] for one in page["flows"]]
    while page["next"]:
        query = {"limit": 1, "cursor": page["next"]}
        page = shared.client.get("/v1/flows", params=query, headers=bearer(mail)).json()
        found += [one["id"] for one in page["flows"]]
    assert len(found) == len(set(found)) == 3


@pytest.mark.promise("X10")
def test_a_limited_key_does_nothing_to_other_flows(shared: Serving) -> None:
    admin = bearer(shared.key("admin", "root"))
    mail = bearer(shared.key("operate", "mail", queues=["mail"]))
    flows = {one["queue"]: one["id"] for one in shared.client.get("/v1/flows", headers=admin).json()["flows"]}
    paths = shared.client.get("/openapi.json").json()["paths"]
    tried = 0
    for path, methods in paths.items():
        for method, operation in methods.items():
            if "{flow_id}" not in path:
                continue
            url = path.replace("{flow_id}", flows["shop"]).replace("{step}", "srv_pay")
            body: dict[str, Any] = {"json": WHY} if "requestBody" in operation else {}
            if path.endswith("/policy"):
                body = {"json": {**WHY, "policy": "attempts: 3"}}
            elif "/queries/" in path or "/updates/" in path:
                body = {"json": {}}
            problem(shared.client.request(method.upper(), url, headers=mail, **body), 404)
            tried += 1
    assert tried == 17
    assert shared.client.get(f"/v1/flows/{flows['mail']}", headers=mail).status_code == 200
    answer = shared.client.post("/v1/dead-letters/discard", json={"flows": [flows["shop"]], **WHY}, headers=mail)
    assert answer.json() == {"settled": [], "count": 0, "more": False}
    start = {"action": "srv_pay", "inputs": {"cents": 1}, "key": "same"}
    said = problem(shared.client.post("/v1/flows", json={**start, "queue": "shop"}, headers=mail), 403)
    assert said["detail"] == "your API key does not allow action:srv_pay in queue shop; use a key that does"
    assert shared.client.post("/v1/flows", json={**start, "queue": "shop"}, headers=admin).status_code == 201
    # The same answer whether the inputs agree or not: otherwise they could be guessed.
    for inputs in ({"cents": 1}, {"cents": 2}):
        begin = {**start, "queue": "mail", "inputs": inputs}
        said = problem(shared.client.post("/v1/flows", json=begin, headers=mail), 403)
        assert said["pointer"] == "/key"
        assert said["detail"] == (
            "a flow with this idempotency key exists, and your API key may not use it; choose another idempotency key"
        )


@pytest.mark.promise("X10")
def test_a_limited_key_is_refused_where_nothing_is_limited(shared: Serving) -> None:
    key = shared.key("operate", "mail", queues=["mail"])
    for path in ("/v1/steps", "/v1/workers", "/metrics"):
        assert "yours has such limits" in problem(shared.client.get(path, headers=bearer(key)), 403)["detail"]
    assert [one["name"] for one in shared.client.get("/v1/queues", headers=bearer(key)).json()["queues"]] == ["mail"]
    assert shared.client.get("/v1/retries", headers=bearer(key)).json() == {"retries": [], "more": False}
