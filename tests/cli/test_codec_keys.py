"""Commands take the keys of payloads from the environment, and say in one line what is wrong with them."""

import json
import sys
from pathlib import Path

import pytest

from redrive.cli import main
from redrive.codecs import AesGcm

pytestmark = pytest.mark.promise("E10")

SHOP = str(Path(__file__).with_name("durable_shop.py"))
KEY, OTHER = AesGcm.new_key(), AesGcm.new_key()


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """A flow that was started with the key in the environment."""
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.setenv("REDRIVE_CODEC_KEYS", KEY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["start", f"{SHOP}:CliOrder", "--input", json.dumps({"user": "Xanadu", "failures": 0})]) == 0
    return capsys.readouterr().out.strip()


def test_the_keys_are_in_the_environment_or_in_a_file(
    flow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert b"Xanadu" not in (tmp_path / "app.db").read_bytes()
    monkeypatch.delenv("REDRIVE_CODEC_KEYS")
    (tmp_path / "keys").write_text(f"{OTHER}\n{KEY}\n")
    monkeypatch.setenv("REDRIVE_CODEC_KEYS_FILE", str(tmp_path / "keys"))
    assert main(["explain", flow]) == 0
    assert "Xanadu" in capsys.readouterr().out


@pytest.mark.parametrize("keys", ["", OTHER], ids=["no codec", "another key"])
def test_a_worker_without_the_key_does_not_start(
    keys: str, flow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDRIVE_CODEC_KEYS", keys)
    assert main(["worker", SHOP]) != 0
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    assert f"its payloads are encoded with key {AesGcm([KEY]).keys[0]}" in last
    assert "REDRIVE_CODEC_KEYS" in last
    assert "Xanadu" not in said.out + said.err


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"REDRIVE_CODEC_KEYS": "secret"}, "REDRIVE_CODEC_KEYS: key 1 is not 32 bytes in base64"),
        ({"REDRIVE_CODEC_KEYS": KEY, "REDRIVE_CODEC_KEYS_FILE": "keys"}, "are both set; use one of them"),
        ({"REDRIVE_CODEC_KEYS": "", "REDRIVE_CODEC_KEYS_FILE": "none"}, "REDRIVE_CODEC_KEYS_FILE: none cannot be read"),
    ],
    ids=["not a key", "two variables", "no file"],
)
def test_wrong_keys_are_refused_in_one_line(
    variables: dict[str, str],
    says: str,
    flow: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["explain", flow]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert "secret" not in line


def test_explain_says_without_the_key_what_it_may(
    flow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDRIVE_CODEC_KEYS", "")
    assert main(["explain", flow]) == 0
    said = capsys.readouterr().out
    assert "CliOrder: ready; it has no log yet, encoded with key" in said
    assert "redacted (" in said
    assert "REDRIVE_CODEC_KEYS" in said
    assert "Xanadu" not in said
