"""Flows over HTTP: start, list, look, tell, through a real server and a real client."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


def test_a_workflow_is_started_runs_and_shows_its_result(server: Serving) -> None:
    answer = server.client.post("/v1/flows", json={"workflow": "SrvOrder", "inputs": {"user": "u1", "failures": 1}})
    assert answer.status_code == 201, answer.text
    flow = answer.json()
    assert answer.headers["location"] == f"/v1/flows/{flow['id']}"
    assert (flow["definition"], flow["queue"], flow["key"]) == ("workflow:SrvOrder", "default", None)
    done = server.finished(flow["id"])
    assert (done["status"], done["result"], done["error"]) == ("completed", {"user": "u1", "paid": "paid 100"}, None)
    (step,) = done["steps"]
    assert (step["name"], step["state"]) == ("srv_pay", "completed")
    assert step["items"][0]["attempts"] == 2
    assert "input" not in done


def test_an_action_is_started_as_a_job_with_all_its_settings(server: Serving) -> None:
    body = {"action": "srv_pay", "inputs": {"cents": 5}, "queue": "money", "priority": 7, "delay": "1h", "key": "pay-5"}
    flow = server.client.post("/v1/flows", json=body).json()
    assert (flow["status"], flow["queue"], flow["priority"], flow["key"]) == ("waiting", "money", 7, "pay-5")


def test_a_failed_flow_says_why_without_secrets(server: Serving) -> None:
    failed = server.finished(server.start("workflow:SrvOrder", {"user": "u1", "failures": 9}))
    assert (failed["status"], failed["result"]) == ("failed", None)
    assert (failed["error"]["kind"], failed["error"]["type"]) == ("exhausted", "ConnectionError")
    for path in ("", "/explain", "/events"):
        answer = server.client.get(f"/v1/flows/{failed['id']}{path}")
        assert answer.status_code == 200
        assert shop.SECRET not in answer.text


@pytest.mark.parametrize("where", ["body", "header"])
def test_the_same_key_gives_the_same_flow_and_another_input_is_refused(server: Serving, where: str) -> None:
    def start(cents: int) -> Any:
        body: dict[str, Any] = {"action": "srv_pay", "inputs": {"cents": cents}}
        if where == "body":
            return server.client.post("/v1/flows", json={**body, "key": "k-body"})
        return server.client.post("/v1/flows", json=body, headers={"Idempotency-Key": "k-header"})

    first, again, other = start(1), start(1), start(2)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert problem(other, 409)["pointer"] == "/key"


def test_two_different_keys_in_one_request_are_refused(server: Serving) -> None:
    body = {"action": "srv_pay", "inputs": {"cents": 1}, "key": "a"}
    assert (
        problem(server.client.post("/v1/flows", json=body, headers={"Idempotency-Key": "b"}), 422)["pointer"] == "/key"
    )


@pytest.mark.parametrize(
    ("body", "status", "pointer", "says"),
    [
        ({"workflow": "SrvOrdr"}, 422, "/workflow", "did you mean 'SrvOrder'?"),
        ({"action": "srv_pya"}, 422, "/action", "did you mean 'srv_pay'?"),
        ({"graph": "nothing-like-it"}, 422, "/graph", "no graph is named 'nothing-like-it'"),
        ({"workflow": "SrvOrder"}, 422, "/inputs/user", "lacks user"),
        ({"workflow": "SrvOrder", "inputs": {"usr": "u1"}}, 422, "/inputs/usr", "did you mean 'user'?"),
        ({"workflow": "SrvOrder", "inputs": {"user": 1}}, 422, "/inputs/user", "Expected `str`, got `int`"),
        ({"action": "srv_pay", "inputs": {"cents": "x"}}, 422, "/inputs/cents", "Expected `int`, got `str`"),
        ({"workflow": "SrvUnread", "inputs": {"x": 1}}, 422, "/workflow", "its type hints cannot be read: name 'Dec"),
        ({"action": "srv_unstored", "inputs": {"x": ""}}, 422, "/action", "UUID | str cannot be stored"),
        ({}, 422, "", "name one of goals, graph, workflow, action"),
        ({"workflow": "SrvOrder", "action": "srv_pay"}, 422, "/action", "this body has workflow and action"),
        ({"workflow": "SrvNap", "delay": "soon"}, 422, "/delay", "is not a duration"),
        ({"workflow": "SrvNap", "delay": "999999999d"}, 422, "/delay", "too long"),
        ({"workflow": "SrvNap", "delay": -1}, 400, "/delay", ">= 0"),
        ({"workflow": "SrvNap", "priority": "high"}, 400, "/priority", "Expected `int`, got `str`"),
        ({"workflow": "SrvNap", "priority": 2**40}, 400, "/priority", "<="),
        ({"workflow": "SrvNap", "queue": ""}, 400, "/queue", "length >= 1"),
        ({"workflow": "SrvNap", "queue": "a\u0000b"}, 400, "/queue", "matching regex"),
        ({"workflow": "SrvNap", "key": "x" * 501}, 400, "/key", "length <= 500"),
        ({"workflow": "SrvNap", "inputs": [1]}, 400, "/inputs", "Expected `object`, got `array`"),
        ({"workflow": "SrvNap", "inptus": {}}, 400, "/inptus", "did you mean 'inputs'?"),
        ({"workflow": None}, 400, "/workflow", "got `null`"),
        ({"goals": ["a", 1]}, 400, "/goals/1", "Expected `str`, got `int`"),
        ([], 400, "", "Expected `object`, got `array`"),
    ],
)
def test_a_bad_start_is_refused_with_the_place(
    server: Serving, body: Any, status: int, pointer: str, says: str
) -> None:
    said = problem(server.client.post("/v1/flows", json=body), status)
    assert said.get("pointer", "") == pointer
    assert says in said["detail"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "says"),
    [
        (b"", "application/json", 400, "not valid JSON"),
        (b"{", "application/json", 400, "not valid JSON"),
        (b'{"a": "\xff"}', "application/json", 400, ""),
        (b'{"inputs": {"a": ' + b"[" * 100_000, "application/json", 400, "nested too deeply"),
        (b"{}", "text/plain", 415, "application/json"),
        (b"a=1", "application/x-www-form-urlencoded", 415, "application/json"),
    ],
)
def test_a_body_that_is_no_json_is_refused(server: Serving, content: bytes, kind: str, status: int, says: str) -> None:
    answer = server.client.post("/v1/flows", content=content, headers={"Content-Type": kind})
    assert says in problem(answer, status)["detail"]


def test_flows_are_listed_in_pages_by_filters(server: Serving) -> None:
    ids = [server.start("action:srv_pay", {"cents": 1}, queue="paged", delay=60) for _ in range(5)]
    seen: list[str] = []
    parameters: dict[str, Any] = {"queue": "paged", "status": ["waiting", "ready"], "limit": 2}
    while True:
        page = server.client.get("/v1/flows", params=parameters).json()
        seen += [flow["id"] for flow in page["flows"]]
        if page["next"] is None:
            break
        parameters["cursor"] = page["next"]
    assert seen == sorted(ids, reverse=True)
    assert server.client.get("/v1/flows", params={"queue": "paged", "status": "failed"}).json()["flows"] == []


@pytest.mark.parametrize(
    ("query", "parameter", "says"),
    [
        ("limit=0", "limit", ">= 1"),
        ("limit=1001", "limit", "<= 1000"),
        ("limit=x", "limit", "Expected `int`"),
        ("limit=1&limit=2", "limit", "given more than once"),
        ("status=done", "status", "Invalid enum value"),
        ("queu=x", "queu", "did you mean 'queue'?"),
        ("queue=", "queue", "length >= 1"),
    ],
)
def test_a_bad_query_is_refused_with_its_parameter(server: Serving, query: str, parameter: str, says: str) -> None:
    said = problem(server.client.get(f"/v1/flows?{query}"), 400)
    assert said["parameter"] == parameter
    assert says in said["detail"]


@pytest.mark.parametrize("cursor", ["nonsense", "", "YWZ0ZXI", "%C3%A4"])
@pytest.mark.parametrize("path", ["/v1/flows", "/v1/dead-letters"])
def test_a_cursor_that_nobody_gave_is_refused(server: Serving, path: str, cursor: str) -> None:
    assert problem(server.client.get(f"{path}?cursor={cursor}"), 422)["parameter"] == "cursor"


def test_a_path_with_nul_is_refused(server: Serving) -> None:
    problem(server.client.get("/v1/flows/a%00b"), 400)
    problem(server.client.get("/v1/flows?queue=a%00b"), 400)


@pytest.mark.parametrize("path", ["", "/explain", "/events"])
def test_an_unknown_flow_is_not_found(server: Serving, path: str) -> None:
    assert problem(server.client.get(f"/v1/flows/{NO_FLOW}{path}"), 404)["parameter"] == "flow_id"


def test_unknown_paths_and_methods_are_problems_too(server: Serving) -> None:
    problem(server.client.get("/v1/nothing"), 404)
    answer = server.client.delete("/v1/flows")
    assert "POST" in problem(answer, 405)["detail"]
    assert "GET" in answer.headers["allow"]


def test_a_flow_is_paused_resumed_and_cancelled_with_who_and_why(server: Serving) -> None:
    flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
    said = {"by": "anna", "why": "the bank asked us to"}
    good: dict[str, Callable[[str], bool]] = {
        "pause": lambda now: now == "paused",
        "resume": lambda now: now != "paused",
        "cancel": lambda now: now == "cancelled",
    }
    for verb in good:
        answer = server.client.post(f"/v1/flows/{flow_id}/{verb}", json=said)
        assert (answer.status_code, answer.json()) == (202, {"id": flow_id, "requested": verb})
        server.until(lambda: server.flow(flow_id)["status"], good[verb])
    explained = server.client.get(f"/v1/flows/{flow_id}/explain").json()
    notes = {entry["what"]: entry for entry in explained["timeline"] if entry["type"] == "note"}
    assert (notes["paused"]["by"], notes["paused"]["why"]) == ("anna", "the bank asked us to")
    assert "is cancelled" in problem(server.client.post(f"/v1/flows/{flow_id}/pause", json=said), 409)["detail"]


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_what_is_told_to_a_flow_needs_a_reason_and_a_flow(server: Serving, verb: str) -> None:
    path = f"/v1/flows/{NO_FLOW}/{verb}"
    assert problem(server.client.post(path, json={"by": "anna"}), 400)["pointer"] == "/why"
    assert problem(server.client.post(path, json={"why": "  "}), 400)["pointer"] == "/why"
    problem(server.client.post(path, json={"why": "because"}), 404)


def test_explain_is_what_the_command_shows_as_json(server: Serving) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 1})
    server.finished(flow_id)
    explained = server.client.get(f"/v1/flows/{flow_id}/explain").json()
    (item,) = [entry for entry in explained["timeline"] if entry["type"] == "item"]
    assert [attempt["outcome"] for attempt in item["attempts"]] == ["failed", "completed"]
    assert item["attempts"][0]["decision"]["answer"] == "retry"


@pytest.mark.promise("L7")
@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", False),
        ("x" * 5000, False),
    ],
)
def test_the_trace_of_a_request_is_kept_with_its_flow(server: Serving, header: str, kept: bool) -> None:
    body = {"action": "srv_pay", "inputs": {"cents": 5}, "delay": "1h"}
    answer = server.client.post("/v1/flows", json=body, headers={"traceparent": header})
    assert answer.status_code == 201, answer.text
    record = server.ask(lambda app: app.find(answer.json()["id"]))
    assert record.traceparent == (header if kept else None)
