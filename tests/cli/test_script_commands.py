"""`redrive script ...` through its entry point."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.cli import main

UNTIDY = "fn main( a ):\n  return a+1 # one more\n"
TIDY = "fn main(a):\n    return a + 1  # one more\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "order.rd"


def test_fmt_changes_what_is_untidy_and_says_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(UNTIDY)
    assert main(["script", "fmt", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: reformatted\n"
    assert file.read_bytes() == TIDY.encode()
    assert main(["script", "fmt", str(file)]) == 0
    assert capsys.readouterr().out == ""


def test_fmt_check_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(UNTIDY)
    assert main(["script", "fmt", "--check", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}: would be reformatted\n"
    assert file.read_text() == UNTIDY
    file.write_text(TIDY)
    assert main(["script", "fmt", "--check", str(file)]) == 0


def test_fmt_makes_line_ends_those_of_unix(file: Path) -> None:
    file.write_bytes(TIDY.replace("\n", "\r\n").encode("utf-8-sig"))
    assert main(["script", "fmt", "--check", str(file)]) == 1
    assert main(["script", "fmt", str(file)]) == 0
    assert file.read_bytes() == TIDY.encode()


def test_a_script_that_cannot_be_read_is_left_alone_and_the_others_are_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, untidy = tmp_path / "broken.rd", tmp_path / "untidy.rd"
    broken.write_text("x = = 1\n")
    untidy.write_text(UNTIDY)
    assert main(["script", "fmt", str(broken), str(untidy)]) == 2
    assert f"{broken}:1:5: found '='" in capsys.readouterr().err
    assert (broken.read_text(), untidy.read_text()) == ("x = = 1\n", TIDY)


def test_check_tells_all_problems_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, fine = tmp_path / "broken.rd", tmp_path / "fine.rd"
    broken.write_text("x = = 1\nif x\n    pass\n")
    fine.write_text(TIDY)
    assert main(["script", "check", str(broken), str(fine)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines if line.startswith(str(tmp_path))] == [
        f"{broken}:1:5",
        f"{broken}:2:5",
        str(fine),
    ]
    assert main(["script", "check", str(fine)]) == 0


def test_check_prints_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("fn main(a):\n    return b\n")
    assert main(["script", "check", str(file), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["source"] == str(file)
    (problem,) = found["problems"]
    assert (problem["line"], problem["column"], problem["severity"]) == (2, 12, "error")


def test_warnings_are_told_and_are_no_failure_unless_asked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("fn main():\n    @ship() [retry: 3, backoff: 1s] [deadline: 1h]\n    return 1\n    pass\n")
    assert main(["script", "check", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"{file}:2:13: RD001 warning: " in said
    assert f"{file}:4:5: unreachable-code warning: " in said
    assert main(["script", "check", str(file), "--strict"]) == 1
    assert capsys.readouterr().out == said
    ignored = ["--ignore", "rd001", "--ignore", "Unreachable-code"]
    assert main(["script", "check", str(file), "--strict", *ignored]) == 0
    assert "no problems found" in capsys.readouterr().out
    assert main(["script", "check", str(file), "--ignore", "RD1"]) == 2
    assert "--ignore RD1: unknown warning; use one of no-main, " in capsys.readouterr().err
    file.write_text("fn main():\n    return nothing\n")
    assert main(["script", "check", str(file), "--ignore", "unreachable-code"]) == 1


@pytest.mark.parametrize("command", ["run", "start"])
def test_what_check_calls_an_error_is_not_started(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script_shop.py").write_text(
        "from redrive import action\n\n\n@action\nasync def bill() -> None:\n    raise SystemExit('charged')\n"
    )
    Path("order.rd").write_text("fn main():\n    receipt = @bill()\n    return reciept\n")
    assert main(["script", "check", "order.rd"]) == 1
    said = capsys.readouterr().out
    assert "order.rd:3:12: nothing is named 'reciept'; did you mean 'receipt'?" in said
    assert main([command, "order.rd", "--import", "script_shop"]) == 2
    assert capsys.readouterr().err == said


def test_check_knows_the_actions_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script_actions.py").write_text(
        "from redrive import action\n\n\n@action\nasync def weigh(parcel: str) -> int:\n    return 1\n"
    )
    Path("order.rd").write_text('fn main():\n    return @wiegh(parcel="p")\n')
    assert main(["script", "check", "order.rd"]) == 0
    assert main(["script", "check", "order.rd", "--import", "script_actions"]) == 1
    assert "did you mean 'weigh'?" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["script", "check", str(tmp_path / "none.rd")]) == 2
    assert main(["script", "fmt", str(tmp_path / "none.rd")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_help_does_not_load_the_parser() -> None:
    script = "import sys\nfrom redrive.cli import main\nmain(['script', 'fmt', '--help'])\n"
    script += "print('redrive.expressions' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert finished.stdout.splitlines()[-1] == "False"


def test_a_script_that_is_too_long_is_refused_in_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("fn main():\n    pass\n" + "#\n" * 5000)
    assert main(["script", "check", str(file)]) == 1
    said = "the script has 5,002 lines; at most 5,000 are allowed; split it, or leave large data to actions"
    said = f"{file}:1:1: {said}\n"
    assert capsys.readouterr().out == said
    assert main(["run", str(file)]) == 2
    assert capsys.readouterr().err == said


def test_the_script_of_the_page_is_in_its_one_layout(file: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "scripts.md"
    file.write_text(page.read_text(encoding="utf-8").partition("```rd file=order.rd\n")[2].partition("```")[0])
    assert main(["script", "fmt", "--check", str(file)]) == 0
