"""`redrive doctor CODE`: the doctor reads source, and names clients that retry by themselves beside redrive."""

import asyncio
import json
from pathlib import Path

import pytest

import redrive
from redrive.cli import main
from redrive.cli.commands.doctor import second_owners as check

TWO_OWNERS = "import redrive\nimport openai\n\nclient = openai.OpenAI()\n"
ONE_OWNER = TWO_OWNERS.replace("OpenAI()", "OpenAI(max_retries=0)")


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> None:
        async with redrive.open(address):
            pass

    address = f"sqlite:///{tmp_path}/app.db"
    asyncio.run(make())
    monkeypatch.setenv("REDRIVE_STORE", address)
    monkeypatch.chdir(tmp_path)


def doctor(capsys: pytest.CaptureFixture[str], *paths: str) -> list[tuple[str, str]]:
    assert main(["doctor", *paths, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [(one["status"], one["text"]) for one in found if one["check"] == "retry owner"]


def test_code_is_looked_at_where_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for path, text in [
        ("app/bad.py", TWO_OWNERS),
        ("app/good.py", ONE_OWNER),
        ("app/broken.py", "def ("),
        ("app/.venv/lib.py", TWO_OWNERS),
        ("app/site-packages/openai/x.py", TWO_OWNERS),
    ]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    assert doctor(capsys) == []
    assert doctor(capsys, "app/good.py") == [("ok", "no client in 1 file retries by itself beside redrive")]
    advice = "write redrive.integrations.openai.owned(openai.OpenAI(...))"
    assert doctor(capsys, "app") == [
        ("warn", f"app/bad.py:4: openai.OpenAI retries by itself, beside redrive: the attempts multiply; {advice}"),
        ("warn", "app/broken.py cannot be read: SyntaxError"),
    ]


def test_a_path_that_does_not_exist_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "nowhere"]) == 2
    assert "nowhere: there is no such file or folder; name Python files or folders" in capsys.readouterr().err


def test_reading_is_bounded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.py").write_text("client = openai.OpenAI()\n" * 3 + "import redrive, openai\n", encoding="utf-8")
    monkeypatch.setattr(check, "MOST_SHOWN", 1)
    assert doctor(capsys, "a.py")[1:] == [("warn", "and 2 more")]
    monkeypatch.setattr(check, "LARGEST_FILE", 10)
    assert doctor(capsys, "a.py") == [("warn", "a.py cannot be read: ValueError")]
    monkeypatch.setattr(check, "MOST_FILES", 0)
    assert main(["doctor", "."]) == 2


@pytest.mark.parametrize("source", [b"\0", b"'\xff'", b"# coding: no-such\n", b"(" * 5000, b"-" * 100_000 + b"1"])
def test_no_file_brings_the_doctor_down(capsys: pytest.CaptureFixture[str], source: bytes) -> None:
    Path("a.py").write_bytes(source)
    ((status, text),) = doctor(capsys, "a.py")
    assert status == "warn"
    assert text.startswith("a.py cannot be read: ")
