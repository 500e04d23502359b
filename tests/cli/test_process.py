"""The command line as a process of its own: what only a real process shows."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REDRIVE = [sys.executable, "-m", "redrive.cli"]


def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*REDRIVE, *arguments], capture_output=True, check=False, **settings)  # noqa: S603 - our own


def test_a_policy_from_standard_input_and_a_table_in_a_pipe() -> None:
    ran = run("policy", "preview", "-", input=b"attempts: 3\n")
    assert b"worst case: 2s of waits, 1m in all" in ran.stdout
    assert b"\x1b" not in ran.stdout
    assert ran.stderr == b""


def test_a_malformed_policy_is_one_line_exit_code_2_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("attempts: 3\nbackof: 1s\n")
    ran = run("policy", "preview", str(file))
    assert (ran.returncode, ran.stdout) == (2, b"")
    (line,) = ran.stderr.decode().splitlines()
    assert line.startswith(f"{file}:2: key 'backof', value \"1s\": unknown; did you mean 'backoff'? allowed: ")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*REDRIVE, "policy", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (141, b"")


def test_a_terminal_without_unicode_gets_no_traceback() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = run("policy", "convert", "--text", "retry_on: [Überlast]", env=environment)
    assert ran.returncode == 0
    assert ran.stdout.isascii()
    assert b"berlast" in ran.stdout


def test_the_script_is_installed() -> None:
    script = Path(sys.executable).with_name("redrive")
    said = subprocess.check_output([str(script), "--version"])  # noqa: S603 - our own script
    assert said.startswith(b"redrive ")


@pytest.mark.parametrize(
    "words", ["schema > /dev/full", "schema >&-", "preview - <&-"], ids=["a full disk", "no output", "no input"]
)
def test_streams_that_cannot_be_used_are_one_line_and_exit_code_2(words: str) -> None:
    shell = f"exec {sys.executable} -m redrive.cli policy {words}"
    finished = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own words
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) == 1
    assert "Traceback" not in finished.stderr


def test_closed_standard_input_and_error_do_not_matter(tmp_path: Path) -> None:
    """Else the sockets of the event loop take their places."""
    (tmp_path / "hello.py").write_text(
        "import redrive\n\n\n@redrive.action\nasync def hello() -> str:\n    return 'hi'\n"
    )
    command = " ".join([*REDRIVE, "run", "hello.py:hello", "--store", "sqlite:///a.db", "<&-", "2>&-"])
    ran = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=tmp_path)  # noqa: S603, S607 - our own words
    assert (ran.returncode, ran.stdout) == (0, b'"hi"\n')


def test_a_deleted_folder_is_named_as_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = " ".join(["rmdir", str(folder), "&&", *REDRIVE, "run", "shop:Order", "--store", "memory://"])
    ran = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=folder)  # noqa: S603, S607 - our own words
    assert ran.returncode == 2
    assert b"the current folder no longer exists" in ran.stderr
