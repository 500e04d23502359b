"""Flows that belong together over HTTP: the earlier runs of a flow, a parent and its children."""

from collections.abc import Iterator

import pytest
from tests.server.serving import Serving, problem, serving
from tests.worker import family  # noqa: F401 - registers what the flows run


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as server:
        yield server


@pytest.mark.promise("E5")
def test_an_earlier_run_is_explained(server: Serving) -> None:
    flow_id = server.start("workflow:runs.Fast", {"runs": 3})
    server.finished(flow_id)
    path = f"/v1/flows/{flow_id}/explain"
    now = server.client.get(path).json()
    assert (now["run"], "current_run" in now) == (3, False)
    before = server.client.get(path, params={"run": 2}).json()
    assert (before["run"], before["current_run"], before["input"]) == (2, 3, "runs=3, done=1")
    gone = problem(server.client.get(path, params={"run": 4}), 404)
    assert gone["detail"] == f"flow {flow_id} has no run 4; use 1 to 3"
    problem(server.client.get(path, params={"run": 0}), 400)


@pytest.mark.promise("E4")
def test_a_flow_names_its_parent_and_counts_its_children(server: Serving) -> None:
    flow_id = server.start("workflow:family.Crowd", {"count": 3})
    done = server.finished(flow_id)
    assert (done["parent"], done["children"]) == (None, {"completed": 3})
    listed = server.client.get("/v1/flows", params={"parent": flow_id}).json()["flows"]
    assert [(one["parent"], one["definition"]) for one in listed] == [(flow_id, "workflow:family.Child")] * 3
    child = server.flow(listed[0]["id"])
    assert (child["parent"], child["children"]) == (flow_id, {})
    for nothing in ({"parent": flow_id, "status": "failed"}, {"parent": child["id"]}):
        assert server.client.get("/v1/flows", params=nothing).json()["flows"] == []


@pytest.mark.promise("E4")
def test_explain_counts_the_children_and_those_of_the_children_that_are_awaited(server: Serving) -> None:
    head = server.start("workflow:family.Sleeper", {"children": 2})
    path = f"/v1/flows/{head}"
    server.until(lambda: server.flow(head)["children"], lambda found: found == {"waiting": 2})
    [child, _] = server.client.get("/v1/flows", params={"parent": head}).json()["flows"]
    assert server.client.get(f"{path}/explain").json()["children"] == {"waiting": 2}
    assert child["parent"] == head
