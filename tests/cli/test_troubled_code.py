"""Code that cannot be run as it is: commands say so, and do not wait for what never comes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from redrive.cli import main

HINTS = """
from uuid import UUID
from redrive import Workflow, action, workflow

@workflow(name="CliUnread")
class Unread(Workflow):
    async def run(self, x: "Decimal") -> None: ...

@action(name="cli_unread")
async def unread(x: "Decimal") -> None: ...

@workflow(name="CliUnstored")
class Unstored(Workflow):
    async def run(self, x: UUID | str) -> None: ...
"""
CHANGED = """
import asyncio, os
from redrive import Workflow, action, workflow

@action(name="cli_note")
async def note(version: str) -> None: ...

@workflow(name="CliChanged")
class Changed(Workflow):
    async def run(self) -> str:
        await note(os.environ["CLI_CHANGED"])
        await asyncio.sleep(1)
        return "done"
"""
FORGETS = """
import asyncio
from redrive import Workflow, workflow

@workflow(name="CliForgets")
class Forgets(Workflow):
    async def run(self) -> None:
        await asyncio.Event().wait()
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRIVE_STORE", "sqlite:///app.db")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run_command(*words: str) -> Ran:
        code = main(list(words))
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run_command


@pytest.fixture
def changed(run: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`redrive run` of a flow that has begun with its old code, with the version of it that is named."""
    Path("changed_flows.py").write_text(CHANGED)
    sys.modules.pop("changed_flows", None)

    def run_version(version: str, *options: str) -> Ran:
        monkeypatch.setenv("CLI_CHANGED", version)
        return run("run", "changed_flows.py:Changed", "--key", "k", *options)

    said = ""
    while "timer 1:" not in said:
        begun = run_version("old", "--timeout", "50ms")
        assert begun.code == 124, begun.err
        said = run("explain", flow_named(begun)).out
    return run_version


def flow_named(ran: Ran) -> str:
    return ran.err.rpartition("redrive explain ")[2].strip()


@pytest.mark.parametrize("command", ["run", "start"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "Unread",
            "workflow CliUnread: its type hints cannot be read: name 'Decimal' is not defined; define or import",
        ),
        ("unread", "action cli_unread: its type hints cannot be read: name 'Decimal' is not defined; define or import"),
        ("Unstored", "workflow CliUnstored: argument x: the type hint uuid.UUID | str cannot be stored: "),
    ],
    ids=["workflow, cannot be read", "action, cannot be read", "cannot be stored"],
)
def test_type_hints_that_cannot_be_used_are_one_line(run: Command, command: str, name: str, says: str) -> None:
    Path("unusable_hints.py").write_text(HINTS)
    sys.modules.pop("unusable_hints", None)
    ran = run(command, "unusable_hints.py:" + name, "--input", '{"x": "a"}')
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert line.startswith(f"redrive: {says}")


def test_a_run_of_a_flow_whose_code_has_changed_explains_it_and_ends(changed: Command) -> None:
    for _ in range(2):  # it is parked now, and then it has been for long
        ran = changed("new")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("CliChanged: parked: line 1 of the log says: ")
        assert "once the code is fixed and its workers run it, go on:\n      redrive flows resume " in ran.err
        assert (
            "stays in the store (parked); once resumed, it continues with: redrive worker changed_flows.py" in ran.err
        )


def test_a_flow_that_was_resumed_is_waited_for(run: Command, changed: Command) -> None:
    assert run("flows", "resume", flow_named(changed("new")), "--why", "the code is fixed").code == 0
    ran = changed("old")
    assert (ran.code, ran.out) == (0, '"done"\n'), ran.err


def test_all_that_is_parked_is_resumed_with_one_command(run: Command, changed: Command) -> None:
    flow_id = flow_named(changed("new"))
    resume = ("flows", "resume", "--parked", "--definition", "CliChanged", "--why", "the deploy is over", "--by", "me")
    assert run(*resume, "--queue", "mail").out == "No parked flows match.\n"
    resumed = run(*resume)
    assert (resumed.code, resumed.err) == (0, "")
    assert resumed.out.startswith("Asked 1 parked flow to resume; those that still do not fit park again: ")
    ran = changed("old")
    assert (ran.code, ran.out) == (0, '"done"\n'), ran.err
    assert "resumed by me (the deploy is over)" in run("explain", flow_id).out
    nothing = {"ids": [], "requested": "resume", "by": "me", "why": "the deploy is over"}
    assert json.loads(run(*resume, "--json").out) == nothing


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no flow is given; name one, or add --parked for all parked flows"),
        (["some-flow", "--parked"], "name a flow, or select parked flows with --parked, not both"),
        (["--queue", "mail"], "no flow is given; name one, or add --parked for all parked flows"),
    ],
)
def test_who_is_to_be_resumed_has_to_be_said(run: Command, words: list[str], says: str) -> None:
    ran = run("flows", "resume", *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"redrive: {says}\n")


def test_a_run_of_a_flow_that_waits_for_what_nothing_brings_ends(run: Command) -> None:
    Path("forgets.py").write_text(FORGETS)
    ran = run("run", "forgets.py:Forgets", "--timeout", "30s", "--store", "memory://")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("CliForgets: parked: ")
    assert "was parked, and is lost with its store in memory" in ran.err
