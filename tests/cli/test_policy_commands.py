"""`redrive policy ...` through its entry point."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import redrive
from redrive.cli import main
from redrive.notation import NOTATIONS, native_schema, read_policy
from redrive.notation.catalogue import WRITABLE
from redrive.notation.linting.linter import RULES

EXAMPLES = {
    "native": "attempts: 4\nbackoff: exponential 1s\njitter: full\n",
    "work_config": '{"max_retries": 3, "backoff": 1000, "max_backoff": 30000}',
    "template": "retry:\n  max_attempts: 4\n",
    "brackets": "[NetworkError -> retry: 3, backoff: 1s]",
    "stage": "RetryInterceptor(max_attempts=4)",
    "temporal": '{"maximumAttempts": 4, "initialInterval": "1s"}',
    "step_functions": '[{"ErrorEquals": ["Busy"], "MaxAttempts": 3}]',
    "tenacity": "@retry(stop=stop_after_attempt(4), wait=wait_exponential())",
    "stamina": "@stamina.retry(on=OSError, attempts=4)",
    "backoff": "@backoff.on_exception(backoff.expo, OSError, max_tries=4)",
    "celery": "@app.task(autoretry_for=(OSError,), max_retries=3)",
}


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_command(*arguments: str) -> Ran:
        code = main([*arguments])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run_command


@pytest.mark.parametrize("notation", EXAMPLES)
def test_preview_takes_any_notation(notation: str, run: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy.txt"
    file.write_text(EXAMPLES[notation])
    ran = run("policy", "preview", str(file), "--json")
    assert ran.code == 0
    assert ran.data["notation"] == notation
    (shown,) = ran.data["previews"]
    assert [row["attempt"] for row in shown["rows"]] == [1, 2, 3, 4]
    assert shown["ends"] == "exhausted"
    jsonschema.validate(ran.data["policy"], native_schema())
    table = run("policy", "preview", str(file))
    assert table.code == 0
    assert "worst case:" in table.out
    assert "\x1b" not in table.out


def test_the_preview_table_shows_every_column(run: Any) -> None:
    ran = run("policy", "preview", "--text", "attempts: 3\nattempt_timeout: 4s\nbackoff: linear 1s")
    words = [line.split() for line in ran.out.splitlines() if line.strip()]
    header, first, second, third = [one for one in words if one[0] == "attempt" or one[0].isdigit()]
    assert header[:2] == ["attempt", "backoff"]
    assert first == ["1", "-", "-", "-", "0s", "0s", "4s"]
    assert second == ["2", "1s", "1s", "1.25s", "1s", "5.25s", "6s"]
    assert third == ["3", "2s", "2s", "2.25s", "3s", "13.5s", "6s"]
    assert "a transient failure, answered by retry_on" in ran.out
    assert "ends: exhausted, attempt 3 of 3 failed" in ran.out
    assert "worst case: 3.5s of waits, 19.5s in all" in ran.out


def test_each_rule_gets_a_table_unless_a_failure_is_named(run: Any) -> None:
    text = "[A -> retry: 1, backoff: 1s] [retry: 2, backoff: 1s]"
    assert len(run("policy", "preview", "--json", "--text", text).data["previews"]) == 2
    (shown,) = run("policy", "preview", "--json", "--text", text, "--failure", "A").data["previews"]
    assert (shown["answered_by"], shown["attempts"]) == ("rules[0]", 2)
    (shown,) = run("policy", "preview", "--json", "--text", text, "--failure", "status:503").data["previews"]
    assert (shown["answered_by"], shown["attempts"]) == ("rules[1]", 3)
    refused = run("policy", "preview", "--text", text, "--failure", "not a name")
    assert refused.code == 2
    assert "key '--failure', value \"not a name\": is not a failure; allowed: timeout, " in refused.err


def test_unlimited_policies_show_so_many_rows(run: Any) -> None:
    ran = run("policy", "preview", "--text", "attempts: unlimited\ndeadline: none", "--rows", "3")
    assert "... first 3 attempts; --rows shows more" in ran.out
    assert "worst case: unlimited waits" in ran.out


def test_warnings_of_reading_go_to_stderr_and_into_the_json(run: Any) -> None:
    ran = run("policy", "preview", "--text", "[retry: 2]")
    assert ran.err.startswith("<text>:1: warning zero-wait: ")
    (warning,) = run("policy", "preview", "--json", "--text", "[retry: 2]").data["warnings"]
    assert (warning["id"], warning["line"]) == ("zero-wait", 1)


@pytest.mark.promise("P15", "T7")
def test_lint_says_file_line_rule_and_what_to_write(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "step.yaml"
    file.write_text("retry:\n  retryable: false\n  max_attempts: 3\n")
    ran = run("policy", "lint", str(file))
    assert ran.code == 1
    (line,) = ran.out.splitlines()
    assert line.startswith(f"{file}:3: RD007 warning: retry.max_attempts: ")
    assert line.endswith("write max_attempts: 1")
    (finding,) = run("policy", "lint", str(file), "--json").data["findings"]
    assert (finding["id"], finding["severity"], finding["line"]) == ("RD007", "warning", 3)


@pytest.mark.parametrize(
    ("text", "code"),
    [("attempts: 3", 0), ("retry_on: any", 0), ("jitter: none", 1), ("attempts: 0", 1), ("attempts: x", 2)],
)
def test_lint_exits_0_clean_1_with_warnings_2_unreadable(text: str, code: int, run: Any) -> None:
    assert run("policy", "lint", "--text", text).code == code
    assert run("policy", "lint", "--json", "--text", text).code == code


def test_lint_rules_can_be_left_out_and_listed(run: Any) -> None:
    ran = run("policy", "lint", "--text", "jitter: none", "--ignore", "RD001")
    assert (ran.code, ran.out) == (0, "<text>: no problems found\n")
    assert run("policy", "lint", "--text", "jitter: none", "--ignore", "RD01").code == 2
    assert [one["id"] for one in run("policy", "lint", "--rules", "--json").data] == list(RULES)
    assert all(rule in run("policy", "lint", "--rules").out for rule in RULES)


def test_lint_inside_another_policy(run: Any, tmp_path: Path) -> None:
    outer = tmp_path / "outer.yaml"
    outer.write_text("attempts: 4")
    ran = run("policy", "lint", "--text", "attempts: 3", "--inside", str(outer))
    assert ran.code == 1
    assert "RD004 warning" in ran.out
    assert "4 x 3 = 12 calls" in ran.out


@pytest.mark.parametrize("to", WRITABLE)
@pytest.mark.parametrize("notation", EXAMPLES)
def test_convert_from_any_to_any(notation: str, to: str, run: Any) -> None:
    strict = run("policy", "convert", "--text", EXAMPLES[notation], "--to", to)
    lossy = run("policy", "convert", "--text", EXAMPLES[notation], "--to", to, "--lossy", "--json")
    assert lossy.code == 0
    reading = read_policy(lossy.data["text"], "native" if to == "native_json" else to)
    assert 4 in (reading.policy.attempts, *(rule.retries + 1 for rule in reading.policy.rules if rule.retries))
    lost = [one["id"] for one in lossy.data["warnings"] if one["id"].startswith("lost-")]
    if lost:
        assert strict.code == 2
        assert strict.out == ""
        assert "cannot express it" in strict.err
        assert len(strict.err.splitlines()) == 1
    else:
        assert (strict.code, strict.out) == (0, lossy.data["text"])
    if to in ("native", "native_json", "brackets"):
        assert not lost


def test_convert_refuses_unknown_and_read_only_notations(run: Any) -> None:
    for to in ("tenacity", "nativ"):
        refused = run("policy", "convert", "--text", "attempts: 3", "--to", to)
        assert refused.code == 2
        assert f"key 'notation', value \"{to}\"" in refused.err
        assert "allowed: " in refused.err


def test_schema_prints_the_schema(run: Any) -> None:
    ran = run("policy", "schema")
    assert ran.code == 0
    assert ran.data == native_schema()
    jsonschema.Draft202012Validator.check_schema(ran.data)


def test_a_folder_is_refused_with_what_to_write(run: Any, tmp_path: Path) -> None:
    refused = run("policy", "lint", str(tmp_path))
    assert refused.code == 2
    assert "is a folder; allowed: a file, such as tasks.py" in refused.err
    assert "redrive doctor" in refused.err


def test_standard_input_is_read(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"attempts: 5\n")))
    assert run("policy", "preview", "-", "--json").data["source"] == "<stdin>"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"attempts: \x00", b"", b"\xef\xbb\xbf", b"a" * 2_000_000])
@pytest.mark.parametrize("command", ["preview", "lint", "convert"])
def test_files_that_are_no_text_are_one_line(command: str, content: bytes, run: Any, tmp_path: Path) -> None:
    file = tmp_path / "broken"
    file.write_bytes(content)
    ran = run("policy", command, str(file))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.startswith(str(file))


@pytest.mark.parametrize(
    "arguments",
    [
        ("policy", "preview"),
        ("policy", "preview", "missing.yaml"),
        ("policy", "preview", "."),
        ("policy", "preview", "x.yaml", "--text", "attempts: 3"),
        ("policy", "preview", "--text", "attempts: 3", "--rows", "0"),
        ("policy", "preview", "--text", "attempts: 3", "--rows", "x"),
        ("policy", "preview", "--text", "attempts: 3", "--from", "natve"),
        ("policy", "preview", "--no-such-option"),
        ("policy", "frobnicate"),
        ("frobnicate",),
        ("policy", "lint", "--text", "attempts: 3", "--inside", "missing.yaml"),
        ("policy", "preview", "bad\x00name"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(arguments: tuple[str, ...], run: Any) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert "Traceback" not in ran.err


def test_version_and_help(run: Any) -> None:
    assert run("--version").out == f"redrive {redrive.__version__}\n"
    for arguments in ((), ("policy",), ("policy", "preview"), ("policy", "lint"), ("policy", "convert")):
        ran = run(*arguments, "--help")
        assert ran.code == 0
        assert "Usage: redrive" in ran.out
        if len(arguments) == 2:
            assert f"redrive policy {arguments[1]} " in ran.out.split("Usage:")[1].split("\n", 1)[1]
    for name in NOTATIONS:
        assert name == "native_json" or name in run("policy", "preview", "--help").out.replace("\n", " ")


def test_no_command_at_all_shows_the_help(run: Any) -> None:
    for arguments in ((), ("policy",)):
        ran = run(*arguments)
        assert ran.code == 2
        assert "Usage: redrive" in ran.err


SOURCE = """\
import os
from tenacity import retry, stop_after_attempt, wait_exponential

@retry(stop=stop_after_attempt(5), wait=wait_exponential(max=10), reraise=True)
def fetch(): ...

@retry(stop=stop_after_attempt(int(os.environ["N"])))
def send(): ...
"""


@pytest.mark.promise("L8")
def test_policies_in_a_python_file_are_converted(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(SOURCE)
    ran = run("policy", "convert", str(file))
    assert ran.code == 1
    assert f"{file}:4: fetch (tenacity)" in ran.out
    assert "@redrive.retry(" in ran.out
    assert "backoff: exponential 1s" in ran.out
    assert f"{file}:4: warning retries-everything: " in ran.err
    assert f"{file}:7: not read: send (tenacity): stop=stop_after_attempt(int(os.environ['N']))" in ran.err
    data = run("policy", "convert", str(file), "--json", "--to", "brackets").data
    (policy,) = data["policies"]
    assert (policy["name"], policy["line"], policy["library"]) == ("fetch", 4, "tenacity")
    assert policy["text"] == "[retry: 4, backoff: 1s, max_backoff: 10s]\n"
    assert [one["line"] for one in data["unread"]] == [7]


@pytest.mark.promise("L8")
def test_policies_in_a_python_file_are_linted(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(SOURCE)
    ran = run("policy", "lint", str(file))
    assert ran.code == 1
    assert f"{file}:4: RD001 warning: wait: " in ran.out
    assert f"{file}:7: not read: send" in ran.err
    data = run("policy", "lint", str(file), "--json", "--ignore", "RD001").data
    assert {one["id"] for one in data["findings"]} == {"RD014"}
    assert [one["name"] for one in data["unread"]] == ["send"]


def test_python_source_from_standard_input(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x = 1\n")))
    ran = run("policy", "convert", "-", "--from", "python")
    assert (ran.code, ran.out) == (0, "<stdin>: no retry settings found\n")


@pytest.mark.parametrize("command", ["convert", "lint"])
def test_a_file_that_is_not_python_is_refused_in_one_line(run: Any, tmp_path: Path, command: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text("x = 1\ndef (:\n")
    ran = run("policy", command, str(file))
    assert ran.code == 2
    assert f"{file}:2: not readable as Python" in ran.err
    assert ran.err.count("\n") == 1
