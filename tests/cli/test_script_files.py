"""Files with scripts on the command line: run, start and worker."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import redrive
from redrive.cli import main
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.definitions import load

ACTIONS = """
from redrive import action

@action(name="rd.greet")
async def greet(name: str) -> str:
    return f"hello {name}"
"""
ORDER = """
fn main(name, times=1):
    said = []
    for n in range(times):
        said += [@rd.greet(name=name) [ConnectionError -> retry: 2, backoff: 1s]]
    return said
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "greeting_actions", raising=False)
    (tmp_path / "greeting_actions.py").write_text(ACTIONS, encoding="utf-8")
    (tmp_path / "greeting.rd").write_text(ORDER, encoding="utf-8")
    return tmp_path


def test_run_carries_out_a_script_with_the_actions_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--input", '{"name": "ann", "times": 2}', "--import", "greeting_actions"]
    assert main(["run", "greeting.rd", *given]) == 0
    assert json.loads(capsys.readouterr().out) == ["hello ann", "hello ann"]


def test_start_keeps_the_script_for_a_worker_that_knows_its_actions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "greeting.rd", "--input", '{"name": "bob"}']) == 0
    flow_id = capsys.readouterr().out.strip()
    load(["greeting.rd", "greeting_actions.py"])

    async def work() -> object:
        async with redrive.open(f"sqlite:///{folder}/app.db") as app:
            return await app.handle(flow_id).result(timeout=20)

    assert asyncio.run(work()) == ["hello bob"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"nmae": "ann"}', "redrive: greeting: no input is named 'nmae'; did you mean 'name'?"),
        ("{}", "redrive: greeting: the inputs lack name"),
    ],
)
def test_inputs_that_do_not_fit_are_one_line(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "greeting.rd", "--input", given]) == 2
    assert capsys.readouterr().err.splitlines() == [said]


def test_all_that_is_wrong_with_a_file_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.rd").write_text("fn main():\n    x = = 1\n    y = 2 3\n", encoding="utf-8")
    assert main(["run", "bad.rd"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bad.rd:")]
    assert [line.split(":")[1] for line in told] == ["2", "3"]
    with pytest.raises(BadFile, match=r"bad\.rd:2:"):
        load(["greeting.rd", "bad.rd"])


def test_two_files_of_one_name_are_refused(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "greeting.rd").write_text(ORDER, encoding="utf-8")
    with pytest.raises(BadInput, match="two scripts are named 'greeting'"):
        load(["greeting.rd", "other/greeting.rd"])


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere.rd"]) == 2
    assert "nowhere.rd cannot be read: No such file or directory" in capsys.readouterr().err
