"""Commands about flows that belong together: the earlier runs of a flow, long logs, a parent and its children."""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.worker.family import Crowd, Fast

import redrive
from redrive.cli import main
from redrive.stores.runs import LONG_RUN


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("REDRIVE_STORE", address)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return address


def completed(store: str, call: Any) -> str:
    """The id of a flow that has completed."""

    async def scenario() -> str:
        async with redrive.open(store) as app:
            flow = await app.start(call)
            await flow.result(timeout=30)
            return flow.id

    return asyncio.run(scenario())


@pytest.mark.promise("E5")
def test_explain_shows_an_earlier_run(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    flow_id = completed(store, Fast.call(3))
    assert main(["explain", flow_id]) == 0
    assert f"run      3; of the run before: redrive explain {flow_id} --run 2" in capsys.readouterr().out
    assert main(["explain", flow_id, "--run", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["current_run"], told["input"]) == (2, 3, "runs=3, done=1")
    assert main(["explain", flow_id, "--run", "4"]) == 2
    assert capsys.readouterr().err == f"redrive: flow {flow_id} has no run 4; use 1 to 3\n"
    assert main(["explain", flow_id, "--run", "0"]) == 2


@pytest.mark.promise("E4")
def test_the_children_of_a_flow_are_listed(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    flow_id = completed(store, Crowd.call(3))
    completed(store, Crowd.call(2))
    assert main(["flows", "list", "--parent", flow_id, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["flows"]
    assert [one["parent"] for one in found] == [flow_id] * 3
    assert main(["flows", "list", "--parent", flow_id, "--status", "failed"]) == 0
    assert capsys.readouterr().out == "No flows match.\n"
    assert main(["explain", flow_id]) == 0
    assert "children 3 completed" in capsys.readouterr().out


@pytest.mark.promise("E5")
def test_doctor_and_explain_name_a_log_that_is_long_to_replay(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def add() -> str:
        async with redrive.open(store, worker=False) as app:
            return (await app.start(Fast.call(3))).id

    flow_id = asyncio.run(add())
    assert main(["doctor"]) == 1, "no worker is alive"
    assert "long logs" not in capsys.readouterr().out
    events = [{"type": "timer_set", "timer": number, "until": 0} for number in range(LONG_RUN + 1)]
    with sqlite3.connect(store[10:]) as database:
        database.execute("INSERT INTO events VALUES (?, ?, 0, ?)", (flow_id, len(events), json.dumps(events)))
    database.close()
    assert main(["doctor"]) == 1, "no worker is alive"
    told = "1 with more than 10,000 events to replay, the longest of workflow:runs.Fast with 10,001: "
    assert f"{told}redrive explain {flow_id}; workflow.continue_as_new()" in capsys.readouterr().out
    assert main(["explain", flow_id]) == 0
    assert "its log has 10,001 events, and whichever worker" in capsys.readouterr().out
