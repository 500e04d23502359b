"""Steps over HTTP: the catalogue, what comes back by webhook, and what operators settle by hand."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop  # noqa: F401 - it registers what the flows run
from tests.server.serving import NO_FLOW, Serving, problem, serving

from redrive.testing import FlakyServer, Reply

WHY = {"by": "anna", "why": "seen to it"}
RESERVE = {
    "name": "reserve",
    "endpoint": "https://shop.example.com/reserve",
    "inputs": {"order_id": "string", "warehouse": {"type": "string", "default": "north"}},
    "outputs": {"reservation": "string"},
    "work_config": {"max_retries": 3, "backoff": 1000, "backoff_type": "exponential"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


# The catalogue


def test_a_step_is_registered_replaced_listed_shown_and_dropped(server: Serving) -> None:
    assert server.client.post("/v1/steps", json=RESERVE).status_code == 201
    changed = server.client.post("/v1/steps", json={**RESERVE, "parallelism": 5})
    assert (changed.status_code, changed.json()["parallelism"]) == (200, 5)
    shown = server.client.get("/v1/steps/reserve").json()
    assert (shown["name"], shown["endpoint"]) == ("reserve", RESERVE["endpoint"])
    # What is shown can be registered again.
    again = server.client.post("/v1/steps", json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    assert server.client.get("/v1/steps").json() == {"steps": [shown]}
    assert server.client.delete("/v1/steps/reserve").status_code == 204
    problem(server.client.delete("/v1/steps/reserve"), 404)
    problem(server.client.get("/v1/steps/reserve"), 404)


@pytest.mark.parametrize(
    ("changes", "status", "pointer"),
    [
        ({"name": 5}, 422, "/name"),
        ({"endpont": "http://x"}, 422, "/endpont"),
        ({"inputs": {"order_id": "text"}}, 422, "/inputs/order_id"),
        ({"work_config": {"max_retries": "many"}}, 422, "/work_config/max_retries"),
        ({"work_config": {"retries": 1}}, 422, "/work_config/retries"),
        ({"when": "1 +"}, 422, "/when"),
        ({"parallelism": 0}, 422, "/parallelism"),
    ],
)
def test_a_bad_step_is_refused_with_the_place(
    server: Serving, changes: dict[str, Any], status: int, pointer: str
) -> None:
    said = problem(server.client.post("/v1/steps", json={**RESERVE, **changes}), status)
    assert said["pointer"] == pointer, said


def test_all_that_is_wrong_with_a_step_is_told_at_once(server: Serving) -> None:
    said = problem(server.client.post("/v1/steps", json={"name": "x", "inputs": {"a": "text"}, "stp": 1}), 422)
    assert {"/inputs/a", "/stp"} <= {one.get("pointer") for one in said["problems"]}


@pytest.mark.parametrize("body", [[], "reserve", None, 5])
def test_a_step_that_is_no_object_is_refused(server: Serving, body: Any) -> None:
    problem(server.client.post("/v1/steps", json=body), 400)


def test_goals_that_nobody_knows_are_refused(server: Serving) -> None:
    said = problem(server.client.post("/v1/flows", json={"goals": ["no_such_step"]}), 422)
    assert "no_such_step" in said["detail"]
    assert said["pointer"].startswith("/goals")


def test_inputs_that_do_not_fit_a_step_are_refused_with_the_place(server: Serving) -> None:
    server.client.post("/v1/steps", json=RESERVE)
    for inputs in ({}, {"order_id": 5}):
        said = problem(server.client.post("/v1/flows", json={"goals": ["reserve"], "inputs": inputs}), 422)
        assert said["pointer"] == "/inputs/order_id", said
    started = server.client.post(
        "/v1/flows", json={"goals": ["reserve"], "inputs": {"order_id": "17"}, "delay": 3600, "key": "order-17"}
    )
    assert started.status_code == 201, started.text
    assert started.json()["definition"] == "graph:goals"
    (step,) = server.flow(started.json()["id"])["steps"]
    assert (step["name"], step["state"]) == ("reserve", "pending")


# Completions


@pytest.mark.promise("A16")
@pytest.mark.parametrize("token", ["nonsense", f"{NO_FLOW}.1.abc", "a.b.c", "x" * 5000, "%2e%2e", "a.1.\u00e4"])
def test_a_token_that_nobody_gave_is_not_found_and_not_repeated(server: Serving, token: str) -> None:
    answer = server.client.post(f"/v1/completions/{token}", json={"success": True, "outputs": {}})
    assert "no attempt has this token" in problem(answer, 404)["detail"]
    assert token not in answer.text


@pytest.mark.promise("A16")
def test_a_completion_for_an_attempt_that_is_over_is_a_duplicate_or_stale(server: Serving) -> None:
    flow_id = server.start("action:srv_pay", {"cents": 1, "failures": 1})
    server.finished(flow_id)
    lines = server.ask(lambda app: app.read_lines(flow_id))
    first, second = [line.event.delivery for line in lines if hasattr(line.event, "delivery")]
    problem(server.client.post(f"/v1/completions/{flow_id}.1.{first}", json={"x": 1}), 409)
    again = server.client.post(f"/v1/completions/{flow_id}.1.{second}", json={"x": 1})
    assert (again.status_code, again.json()) == (200, {"outcome": "duplicate"})
    # The same told again does no harm, also of a failure; the opposite is not the same.
    failed = {"success": False, "error": "no"}
    again = server.client.post(f"/v1/completions/{flow_id}.1.{first}", json=failed)
    assert (again.status_code, again.json()) == (200, {"outcome": "duplicate"})
    problem(server.client.post(f"/v1/completions/{flow_id}.1.{second}", json=failed), 409)


@pytest.fixture(scope="module")
def handler() -> Iterator[FlakyServer]:
    """Takes every work, to be completed later."""
    with FlakyServer(then=Reply(status=202, body={"accepted": True})) as handler:
        yield handler


def accepted(server: Serving, handler: FlakyServer, name: str) -> tuple[str, str]:
    """A flow whose step was accepted, and where to complete it."""
    step = {"name": name, "endpoint": f"{handler.url}/{name}", "mode": "async", "outputs": {"number": "integer"}}
    assert server.client.post("/v1/steps", json={**step, "retry": {"max_attempts": 1}}).is_success
    flow_id: str = server.client.post("/v1/flows", json={"goals": [name]}).json()["id"]
    server.until(
        lambda: [one["event"]["type"] for one in server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]],
        lambda types: "attempt_accepted" in types,
    )
    (url,) = [seen.headers["redrive-callback"] for seen in handler.seen if seen.headers["redrive-flow"] == flow_id]
    return flow_id, url


@pytest.mark.promise("A16")
@pytest.mark.parametrize("body", [{"number": 17}, {"success": True, "outputs": {"number": 17}}])
def test_a_step_is_completed_by_webhook_without_a_key(server: Serving, handler: FlakyServer, body: Any) -> None:
    flow_id, url = accepted(server, handler, f"later{len(body)}")
    assert url.startswith(f"{server.url}/v1/completions/{flow_id}.1.")
    wrong = server.client.post(url, json={"number": "many"}, headers={"Host": "redrive.example.com"})
    assert "number" in problem(wrong, 422)["detail"]
    told = server.client.post(url, json=body, headers={"Host": "redrive.example.com"})
    assert (told.status_code, told.json()) == (202, {"outcome": "accepted"})
    assert server.finished(flow_id)["result"] == {"number": 17}
    again = server.client.post(url, json=body)
    assert (again.status_code, again.json()) == (200, {"outcome": "duplicate"})


@pytest.mark.promise("A16")
@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ({"success": False, "error": "out of stock"}, "application/json", "out of stock"),
        ({"title": "Gone", "status": 410, "detail": "no more of it"}, "application/problem+json", "no more of it"),
    ],
)
def test_a_step_is_failed_by_webhook(
    server: Serving, handler: FlakyServer, body: dict[str, Any], kind: str, says: str
) -> None:
    flow_id, url = accepted(server, handler, f"failing{len(body)}")
    told = server.client.post(url, content=json.dumps(body), headers={"Content-Type": kind})
    assert told.status_code == 202, told.text
    failed = server.finished(flow_id)
    assert failed["status"] == "failed"
    assert says in failed["error"]["message"]


def test_a_completion_that_is_no_json_is_refused(server: Serving) -> None:
    answer = server.client.post("/v1/completions/x", content=b"hello", headers={"Content-Type": "text/plain"})
    problem(answer, 415)


# By hand


@pytest.mark.parametrize("verb", ["reset", "complete", "resolve"])
def test_what_is_done_by_hand_needs_a_flow_a_step_and_a_reason(server: Serving, verb: str) -> None:
    flow_id = server.start("workflow:SrvNap", {"seconds": 3600})
    problem(server.client.post(f"/v1/flows/{NO_FLOW}/steps/a/{verb}", json=WHY), 404)
    assert problem(server.client.post(f"/v1/flows/{flow_id}/steps/a/{verb}", json=WHY), 404)["parameter"] == "step"
    path = f"/v1/flows/{flow_id}/steps/a/{verb}"
    assert problem(server.client.post(path, json={"by": "anna"}), 400)["pointer"] == "/why"
    assert problem(server.client.post(path, json={**WHY, "index": -1}), 400)["pointer"] == "/index"
    assert problem(server.client.post(path, json={**WHY, "indx": 1}), 400)["pointer"] == "/indx"


def test_a_step_that_is_done_cannot_be_settled(server: Serving) -> None:
    flow_id = server.start("action:srv_pay", {"cents": 1})
    server.finished(flow_id)
    for verb in ("reset", "complete", "resolve"):
        problem(server.client.post(f"/v1/flows/{flow_id}/steps/srv_pay/{verb}", json=WHY), 409)


@pytest.mark.promise("T10")
def test_a_step_that_waits_is_completed_by_hand_and_the_flow_goes_on(server: Serving) -> None:
    flow_id = server.start("action:srv_flaky")
    server.until(lambda: server.flow(flow_id)["steps"], lambda steps: steps and steps[0]["state"] == "waiting")
    answer = server.client.post(f"/v1/flows/{flow_id}/steps/srv_flaky/complete", json={**WHY, "outputs": None})
    assert (answer.status_code, answer.json()) == (202, {"id": flow_id, "step": "srv_flaky", "requested": "complete"})
    assert server.finished(flow_id)["status"] == "completed"
    events = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    (done,) = [one["event"] for one in events if one["event"]["type"] == "item_completed"]
    assert (done["by"], done["why"]) == ("anna", "seen to it")
