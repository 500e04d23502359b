"""Scripts over HTTP: those that the server's process knows are started by name."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.serving import Serving, problem, serving

from redrive import action
from redrive.flows.registry import register_script
from redrive.flows.scripts.script import Script

BILL = """\
fn main(cents, fails=0):
    return [@srv_scripted(cents=cents), 1 / (1 - fails)]
"""


@action
async def srv_scripted(cents: int) -> str:
    return f"paid {cents}"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    register_script(Script("srv_bill", BILL))
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
        ({"script": "srv_bil"}, "/script", "did you mean 'srv_bill'?"),
        ({"script": "srv_bill"}, "/inputs/cents", "lack cents"),
        ({"script": "srv_bill", "inputs": {"cent": 1}}, "/inputs/cent", "did you mean 'cents'?"),
        ({"script": "srv_bill", "action": "srv_scripted"}, "/script", "this has action and script"),
    ],
)
def test_a_bad_start_is_refused_with_the_place(server: Serving, body: Any, pointer: str, says: str) -> None:
    said = problem(server.client.post("/v1/flows", json=body), 422)
    assert said["pointer"] == pointer
    assert says in said["detail"]
