"""Scripts over HTTP: those that the server's process knows are started by name."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.serving import Serving, problem, serving

from redrive import action
from redrive.flows.scripts.script import Script, register_script

BILL = """\
fn main(cents, fails=0):
    return [@srv_scripted(cents=cents), 1 / (1 - fails)]
fn free():
    return "free"
"""
PARTS = """\
fn one():
    return 1
fn other():
    while True:
        try:
            sleep 1h
        finally:
            continue
"""


@action
async def srv_scripted(cents: int) -> str:
    return f"paid {cents}"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    register_script(Script("srv_bill", BILL))
    register_script(Script("srv_parts", PARTS))
    register_script(Script("srv_wrong", "fn main():\n    return reciept\n"))
    with serving() as server:
        yield server


def test_a_script_is_started_runs_and_shows_its_result(server: Serving) -> None:
    answer = server.client.post("/v1/flows", json={"script": "srv_bill", "inputs": {"cents": 5}})
    assert answer.status_code == 201, answer.text
    assert answer.json()["definition"] == "script:srv_bill"
    done = server.finished(answer.json()["id"])
    assert (done["status"], done["result"]) == ("completed", ["paid 5", 1.0])


def test_a_script_that_fails_says_in_which_line(server: Serving) -> None:
    answer = server.client.post("/v1/flows", json={"script": "srv_bill", "inputs": {"cents": 5, "fails": 1}})
    failed = server.finished(answer.json()["id"])
    assert (failed["status"], failed["error"]["type"]) == ("failed", "ZeroDivisionError")
    assert "script srv_bill, line 2" in server.client.get(f"/v1/flows/{failed['id']}/explain").text


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"script": "srv_wrong"}, "/script", "reciept"),
        ({"script": "srv_bil"}, "/script", "did you mean 'srv_bill'?"),
        ({"script": "srv_bill"}, "/inputs/cents", "lack cents"),
        ({"script": "srv_bill", "inputs": {"cent": 1}}, "/inputs/cent", "did you mean 'cents'?"),
        ({"script": "srv_bill", "action": "srv_scripted"}, "/script", "this body has action and script"),
        ({"script": "srv_bill", "function": "fre"}, "/function", "did you mean 'free'?"),
        ({"script": "srv_parts"}, "/function", "has no function main; name the one to run: one, other"),
        ({"action": "srv_scripted", "inputs": {"cents": 1}, "function": "free"}, "/function", "is only for scripts"),
    ],
)
def test_a_bad_start_is_refused_with_the_place(server: Serving, body: Any, pointer: str, says: str) -> None:
    said = problem(server.client.post("/v1/flows", json=body), 422)
    assert said["pointer"] == pointer
    assert says in said["detail"]


def test_the_function_is_named_and_a_key_stays_good_when_the_text_changes(server: Serving) -> None:
    body = {"script": "srv_bill", "function": "free", "key": "free-1"}
    first = server.client.post("/v1/flows", json=body)
    assert first.status_code == 201, first.text
    assert server.finished(first.json()["id"])["result"] == "free"
    register_script(Script("srv_bill", f"# with a note\n{BILL}"))
    again = server.client.post("/v1/flows", json=body)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    problem(server.client.post("/v1/flows", json={**body, "function": "main", "inputs": {"cents": 1}}), 409)


def test_flows_and_dead_letters_are_found_by_the_name_alone(server: Serving) -> None:
    failed = server.finished(server.start("script:srv_bill", {"cents": 5, "fails": 1}))["id"]
    for name in ("srv_bill", "script:srv_bill"):
        found = server.client.get("/v1/flows", params={"definition": name}).json()["flows"]
        assert failed in [flow["id"] for flow in found]
        letters = server.client.get("/v1/dead-letters", params={"definition": name}).json()["dead_letters"]
        assert failed in [letter["flow_id"] for letter in letters]
    assert letters[-1]["payload"] == '{"cents":5,"fails":1}'
    assert server.client.get("/v1/flows", params={"definition": "srv_bil"}).json()["flows"] == []


def test_a_flow_that_will_not_stop_is_ended_by_force(server: Serving) -> None:
    flow = server.start("script:srv_parts", function="other")
    server.until(lambda: server.flow(flow), lambda now: now["status"] == "waiting")
    assert server.client.post(f"/v1/flows/{flow}/cancel", json={"why": "x", "force": True}).status_code == 202
    assert server.finished(flow)["status"] == "cancelled"
    problem(server.client.post(f"/v1/flows/{flow}/pause", json={"why": "x", "force": True}), 400)
