"""Nothing that is stored controls the terminal of whoever looks at it."""

import asyncio
import json
import logging
from pathlib import Path

import msgspec
import pytest

import redrive
from redrive.cli import main
from redrive.cli.stderr_logging import log_to_stderr
from redrive.formatting.text import terminal_json, terminal_text

# CSI in one character, bidirectional override, zero width, BOM, escape, backspace, tag, line separator.
NASTY = "\x9b31m\u202egnp\u200b\ufeff\x1b[2J\x08\U000e0041\u2028"
NAME = f"evil{NASTY}step"


@redrive.action(name="terminal_fail")
def fail(text: str) -> None:
    raise redrive.Permanent(text)


@redrive.action(name="terminal_echo")
def echo(text: str) -> str:
    return text


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("REDRIVE_STORE", url)
    return url


async def _fill(store: str) -> tuple[str, str]:
    async with redrive.open(store) as app:
        failed = await app.start(fail(NASTY), key=f"key{NASTY}")
        with pytest.raises(redrive.Permanent):
            await failed.result()
        echoed = await app.start(echo(NASTY))
        assert await echoed.result() == NASTY
        await app.register_step({"name": "ship", "endpoint": "https://h.example.com/", "outputs": {"x": "any"}})
    return failed.id, echoed.id


@pytest.mark.promise("X10")
def test_no_command_prints_what_controls_a_terminal(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed, echoed = asyncio.run(_fill(store))
    capsys.readouterr()
    assert main(["keys", "add", "--role", "read", "--name", "x"]) == 0
    for words in (
        ["flows"],
        ["flows", "--json"],
        ["explain", failed],
        ["explain", failed, "--json"],
        ["explain", echoed],
        ["flows", "result", echoed],
        ["flows", "result", failed],
        ["flows", "steps", failed],
        ["flows", "steps", failed, "--json"],
        ["flows", "cancel", NAME, "--why", NASTY],
        ["dead"],
        ["dead", "--json"],
        ["dead", "show", failed],
        ["dead", "discard", failed, "--why", NASTY, "--by", NASTY],
        ["explain", failed],
        ["audit"],
        ["audit", "--json"],
        ["keys"],
        ["steps"],
        ["doctor"],
    ):
        main(words)
        shown = capsys.readouterr()
        bad = [one for one in shown.out + shown.err if not one.isprintable() and one != "\n"]
        assert not bad, (words, bad)
    main(["flows", "result", echoed])
    assert json.loads(capsys.readouterr().out) == NASTY


@pytest.mark.promise("X10")
def test_no_log_line_controls_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr("info")
    logging.getLogger("redrive").warning("worker %s\nnext line", NASTY)
    said = capsys.readouterr().err
    assert "\\x9b31m\\u202egnp" in said
    assert all(one.isprintable() or one == "\n" for one in said)


def test_text_and_json_keep_what_is_harmless() -> None:
    plain = "Grüße, 日本語 ✓\n  next"
    assert terminal_text(plain) == plain
    assert terminal_json(plain) == plain
    text = msgspec.json.encode({NASTY: [NASTY, "ä🦊"]}).decode()
    assert msgspec.json.decode(terminal_json(text)) == {NASTY: [NASTY, "ä🦊"]}
    assert all(one.isprintable() for one in terminal_json(text))
