"""One row of the store that cannot be read does not break the lists: it is shown as broken."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server import shop
from tests.server.serving import Serving, serving

pytestmark = pytest.mark.promise("X9")

STEPS = [{"name": name, "endpoint": "https://shop.example.com/x"} for name in ("first", "second", "third")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def server(file: Path) -> Iterator[Serving]:
    with serving(f"sqlite:///{file}") as one:
        yield one


def change(file: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(file) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


@pytest.mark.parametrize("body", ["{", "{}", '{"name": 7}', "null", "[" * 5000])
def test_a_broken_step_is_listed_as_broken(server: Serving, file: Path, body: str) -> None:
    for step in STEPS:
        assert server.client.post("/v1/steps", json=step).status_code == 201
    change(file, "UPDATE step_catalogue SET body = ? WHERE name = 'second'", body)
    listed = server.client.get("/v1/steps")
    assert listed.status_code == 200, listed.text
    assert [(step["name"], "broken" in step) for step in listed.json()["steps"]] == [
        ("first", False),
        ("second", True),
        ("third", False),
    ]
    assert "register it again or drop it" in server.client.get("/v1/steps/second").json()["broken"]
    assert server.client.post("/v1/flows", json={"goals": ["third"]}).status_code == 201
    assert server.client.delete("/v1/steps/second").status_code == 204


@pytest.mark.parametrize("body", ["{", '[{"type": "from_a_newer_version"}]', "7"])
def test_a_broken_row_of_a_log_is_listed_as_broken(server: Serving, file: Path, body: str) -> None:
    flow_id = server.start("workflow:SrvOrder", {"user": "u1", "failures": 1})
    assert server.finished(flow_id)["status"] == "completed"
    whole = server.client.get(f"/v1/flows/{flow_id}/events").json()["events"]
    with sqlite3.connect(file) as connection:
        rows = [
            seq for (seq,) in connection.execute("SELECT seq FROM events WHERE flow_id = ? ORDER BY seq", (flow_id,))
        ]
    connection.close()
    assert len(rows) >= 3
    before, broken = rows[:2]
    change(file, "UPDATE events SET body = ? WHERE flow_id = ? AND seq = ?", body, flow_id, broken)
    answer = server.client.get(f"/v1/flows/{flow_id}/events")
    assert answer.status_code == 200, answer.text
    shown = answer.json()["events"]
    (bad,) = [line for line in shown if line["event"]["type"] == "broken"]
    assert bad["seq"] == broken
    assert flow_id in bad["event"]["problem"]
    assert [line for line in shown if line != bad] == [
        line for line in whole if line["seq"] <= before or line["seq"] > broken
    ]
    streamed = server.client.get(f"/v1/flows/{flow_id}/events", headers={"Accept": "text/event-stream"}).text
    data = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    assert data == [*shown, {"status": "completed"}]
    assert server.client.get("/v1/flows").status_code == 200
    assert shop.SECRET not in answer.text
