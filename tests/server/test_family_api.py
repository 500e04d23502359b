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
