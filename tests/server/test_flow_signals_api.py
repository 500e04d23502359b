"""Signals over HTTP: stored before they are answered, received once, and refused with a problem."""

from collections.abc import Iterator

import pytest
from tests.server.serving import Serving, problem, serving

from redrive import Workflow, workflow

pytestmark = pytest.mark.promise("E1")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@workflow(name="SrvLetters")
class Letters(Workflow):
    async def run(self) -> list[int]:
        return [(await workflow.receive("letter"))["n"] for _ in range(2)]


def test_a_signal_with_a_key_is_received_once_and_an_ended_flow_refuses_it(server: Serving) -> None:
    flow_id = server.start("workflow:SrvLetters", {})
    path = f"/v1/flows/{flow_id}/signals/letter"
    for _ in range(2):
        answer = server.client.post(path, json={"arguments": {"n": 1}}, headers={"Idempotency-Key": "letter-1"})
        assert (answer.status_code, answer.json()) == (202, {"id": flow_id, "signal": "letter"})
    assert server.client.post(path, json={"arguments": {"n": 2}}).status_code == 202
    assert server.finished(flow_id)["result"] == [1, 2]
    assert "is completed" in problem(server.client.post(path, json={"arguments": {"n": 3}}), 409)["detail"]
    again = server.client.post(path, json={"arguments": {"n": 1}}, headers={"Idempotency-Key": "letter-1"})
    assert again.status_code == 202


@pytest.mark.parametrize(("body", "says"), [({"arguments": [1]}, "object"), ({"args": {}}, "args"), ({"by": 5}, "by")])
def test_a_signal_that_cannot_be_read_is_a_problem(server: Serving, body: dict[str, object], says: str) -> None:
    flow_id = server.start("workflow:SrvLetters", {})
    answer = problem(server.client.post(f"/v1/flows/{flow_id}/signals/letter", json=body), 400)
    assert says in str(answer)
    too_long = server.client.post(f"/v1/flows/{flow_id}/signals/{'x' * 201}", json={})
    assert "at most 200 characters" in problem(too_long, 422)["detail"]
    assert problem(server.client.post("/v1/flows/nobody/signals/letter", json={}), 404)
