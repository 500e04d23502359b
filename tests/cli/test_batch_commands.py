"""`redrive batch`, and the options --tag and --batch."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive.cli import main

HERE = __name__
START = ["batch", "start", "night", f"{HERE}:work", "inputs.jsonl", "--on-done", f"{HERE}:Report", "--tag", "tenant=a"]


@redrive.action(name="cli_batch.work")
async def work(n: int) -> int:
    if n < 0:
        raise redrive.Permanent("negative")
    return n


@redrive.workflow(name="cli_batch.Report")
class Report(redrive.Workflow):
    async def run(self, counts: redrive.BatchCounts | None = None) -> int:
        return 0 if counts is None else counts.completed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/app.db")
    (tmp_path / "inputs.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n{"n": -3}\n')
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def run_all(folder: Path) -> None:
    async def run() -> None:
        async with redrive.open(f"sqlite:///{folder}/app.db", grace=0) as app:
            await (await app.find_batch("night")).wait(30)

    asyncio.run(run())


@pytest.mark.promise("E7")
def test_a_batch_is_started_watched_and_redriven(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys, *START)
    assert (first["name"], first["total"], first["counts"]["ready"], first["is_done"]) == ("night", 3, 3, False)
    assert said(capsys, *START) == first == said(capsys, "batch", "show", "night")
    assert [one["name"] for one in said(capsys, "batch", "list")["batches"]] == ["night"]
    assert len(said(capsys, "flows", "--batch", "night")["flows"]) == 3
    assert len(said(capsys, "flows", "--tag", "tenant=a")["flows"]) == 3
    assert said(capsys, "flows", "--tag", "tenant=b")["flows"] == []
    run_all(folder)
    done = said(capsys, "batch", "watch", "night", code=1)
    assert (done["counts"]["completed"], done["counts"]["failed"], done["is_done"]) == (2, 1, True)
    assert said(capsys, "batch", "redrive", "night", "--why", "it is positive now", "--by", "ann")["done"] == 1
    assert said(capsys, "batch", "cancel", "night", "--why", "not tonight")["count"] == 1
    assert main(["batch"]) == 0
    assert "night" in capsys.readouterr().out
    assert main(["batch", "show", "night"]) == 0
    assert "night: 2 of 3 ended" in capsys.readouterr().out


def test_a_flow_is_started_with_tags(capsys: pytest.CaptureFixture[str]) -> None:
    flow = said(capsys, "start", f"{HERE}:work", "--input", '{"n": 1}', "--tag", "a=b=c", "--tag", "env=prod")
    found = said(capsys, "flows", "--tag", "a=b=c", "--tag", "env=prod")["flows"]
    assert [one["id"] for one in found] == [flow["id"]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["flows", "--tag", "tenant"], "has no =; write a name and a text, such as tenant=acme"),
        (["flows", "--tag", "a b=c"], "'a b' is not a valid name"),
        (["batch", "show", "nobody"], "there is no batch 'nobody'"),
        (["batch", "start", "a/b", f"{HERE}:work", "inputs.jsonl"], "'a/b' is not a valid name"),
        (["batch", "start", "night", f"{HERE}:work", "none.jsonl"], "none.jsonl: No such file"),
        (["batch", "start", "night", f"{HERE}:Report", "inputs.jsonl"], "inputs.jsonl, line 1: "),
        (["batch", "cancel", "night"], "--why is missing"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", f"{HERE}:work", "--input", '{"n": 1}']) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error
