"""Queries and updates over HTTP: answered by the workflow's code, and refused with a problem."""

from collections.abc import Iterator

import pytest
from tests.server.serving import Serving, problem, serving

import redrive
from redrive import Workflow, workflow
from redrive.flows.workflows.workflow import WORKFLOWS
from redrive.server.access.api_keys import Role

pytestmark = pytest.mark.promise("E2")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@workflow(name="SrvCart")
class Cart(Workflow):
    def __init__(self) -> None:
        self.items: dict[str, int] = {}
        self.closed = False

    @redrive.query
    def count(self, item: str) -> int:
        return self.items[item]

    @redrive.query
    def steal(self) -> None:
        self.items.clear()

    @redrive.update
    def add(self, item: str, number: int = 1) -> dict[str, int]:
        if item == "unicorn":
            raise LookupError("no unicorns left")
        self.items[item] = self.items.get(item, 0) + number
        return self.items

    @redrive.update
    async def wait(self) -> None:
        await workflow.wait_for(lambda: self.closed)

    @redrive.signal
    def close(self) -> None:
        self.closed = True

    async def run(self) -> int:
        await workflow.wait_for(lambda: self.closed)
        return len(self.items)


def test_updates_change_the_flow_once_a_key_and_queries_read_it(server: Serving) -> None:
    flow_id = server.start("workflow:SrvCart", {})
    path = f"/v1/flows/{flow_id}"
    for _ in range(2):
        added = server.client.post(
            f"{path}/updates/add",
            json={"arguments": {"item": "book", "number": 2}, "by": "ann"},
            headers={"Idempotency-Key": "add-1"},
        )
        assert (added.status_code, added.json()) == (200, {"id": flow_id, "update": "add", "result": {"book": 2}})
    asked = server.client.post(f"{path}/queries/count", json={"arguments": {"item": "book"}})
    assert (asked.status_code, asked.json()) == (200, {"id": flow_id, "query": "count", "answer": 2})
    late = server.client.post(f"{path}/updates/wait", json={"timeout": 0})
    assert (late.status_code, late.json()) == (202, {"id": flow_id, "update": "wait"})
    server.client.post(f"{path}/signals/close", json={})
    assert server.finished(flow_id)["result"] == 1
    assert server.client.post(f"{path}/queries/count", json={"arguments": {"item": "book"}}).json()["answer"] == 2
    assert "is completed" in problem(server.client.post(f"{path}/updates/add", json={}), 409)["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("updates/add", {"arguments": {"item": "unicorn"}}, 422, "failed: LookupError: no unicorns left"),
        ("updates/add", {"arguments": {"item": 5}}, 422, "Expected `str`"),
        ("updates/ad", {}, 422, "no update 'ad'; did you mean 'add'?"),
        ("updates/add", {"timeout": 61}, 400, "timeout"),
        (f"updates/{'x' * 201}", {}, 422, "at most 200 characters"),
        ("queries/cont", {}, 422, "no query 'cont'; did you mean 'count'?"),
        ("queries/count", {}, 422, "item"),
        ("queries/count", {"arguments": {"item": "pen"}}, 422, "raised KeyError: 'pen'"),
        ("queries/steal", {}, 409, "changes what the workflow knows"),
    ],
)
def test_what_is_refused_is_a_problem(server: Serving, path: str, body: object, status: int, says: str) -> None:
    flow_id = server.start("workflow:SrvCart", {})
    server.until(lambda: server.flow(flow_id), lambda flow: flow["status"] == "waiting")
    server.client.post(f"/v1/flows/{flow_id}/updates/add", json={"arguments": {"item": "book"}})
    assert says in str(problem(server.client.post(f"/v1/flows/{flow_id}/{path}", json=body), status))


def test_a_server_without_the_code_says_how_to_start_it(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    flow_id = server.start("workflow:SrvCart", {})
    server.until(lambda: server.flow(flow_id), lambda flow: flow["status"] == "waiting")
    monkeypatch.delitem(WORKFLOWS.by_name, "SrvCart")
    refused = problem(server.client.post(f"/v1/flows/{flow_id}/queries/count", json={}), 409)
    assert "lacks the code of the workflow 'SrvCart'; start it with: redrive serve MODULE" in refused["detail"]


def test_a_query_needs_the_role_that_sees_payloads_and_an_update_one_that_operates() -> None:
    with serving() as server:
        flow_id = server.start("workflow:SrvCart", {})
        server.client.post(f"/v1/flows/{flow_id}/updates/add", json={"arguments": {"item": "a"}})
        roles: list[tuple[Role, tuple[int, int]]] = [
            ("read", (403, 403)),
            ("read:payload", (200, 403)),
            ("operate", (200, 200)),
        ]
        for role, statuses in roles:
            key = {"Authorization": f"Bearer {server.key(role)}"}
            got = tuple(
                server.client.post(f"/v1/flows/{flow_id}/{path}", json={"arguments": {"item": "a"}}, headers=key)
                for path in ("queries/count", "updates/add")
            )
            assert tuple(one.status_code for one in got) == statuses, [one.text for one in got]
