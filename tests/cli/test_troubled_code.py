"""Code that cannot be run as it is: commands say so, and do not wait for what never comes."""

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
