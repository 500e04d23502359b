"""`redrive serve --tls-cert --tls-key`, with certificates that openssl makes."""

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from redrive.cli import main

PATIENCE = 30.0
pytestmark = [
    pytest.mark.promise("X9"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
]


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)  # noqa: S603, S607 - that of this machine


def make(folder: Path, name: str) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    named = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *named, "-out", certificate, "-keyout", key)
    return certificate, key


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return make(tmp_path_factory.mktemp("tls"), "first")


@contextmanager
def served(
    folder: Path, certificate: str, key: str
) -> Iterator[tuple[str, "subprocess.Popen[str]", Callable[[], str]]]:
    command = [sys.executable, "-m", "redrive.cli", "serve", "--port", "0", "--no-worker"]
    output = folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--tls-cert", certificate, "--tls-key", key],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "REDRIVE_STORE": f"sqlite:///{folder}/app.db"},
        )
    try:
        found = until(lambda: re.search(r"redrive serves (https://\S+):", output.read_text()))
        yield found[1], process, output.read_text
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, output.read_text()


def until(look: Callable[[], Any]) -> Any:
    limit = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < limit
        time.sleep(0.02)
    return found


def address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("https://").partition(":")
    return host, int(port)


def common_name(url: str, certificate: str) -> str:
    """Whom the server's certificate names, which must be this one."""
    context = ssl.create_default_context(cafile=certificate)
    with (
        socket.create_connection(address(url), PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
    ):
        subject: Any = (tls.getpeercert() or {})["subject"]
        return str(subject[0][0][1])


def test_https_is_served(tmp_path: Path) -> None:
    certificate, key = make(tmp_path, "first")
    with served(tmp_path, certificate, key) as (url, _, said):
        trusted = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=url, verify=trusted, timeout=PATIENCE) as client:
            for _ in range(20):
                assert client.get("/v1/flows").status_code == 200
            step = {"name": "x", "endpoint": "https://shop.example.com/x", "description": "d" * 60_000}
            assert client.post("/v1/steps", json=step).status_code in (201, 422)
        assert common_name(url, certificate) == "first"
        with socket.create_connection(address(url), PATIENCE) as raw:
            raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"200" not in raw.recv(1000)
        assert "Traceback" not in said()


def test_files_that_cannot_be_used_are_one_line(
    tmp_path: Path, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = pair
    other, other_key = make(tmp_path, "other")
    nonsense, locked = tmp_path / "nonsense.pem", str(tmp_path / "locked.key")
    nonsense.write_text("nonsense")
    openssl("rsa", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked)
    missing = str(tmp_path / "missing.pem")
    for files, says in (
        (["--tls-cert", certificate], "--tls-cert needs --tls-key as well"),
        (["--tls-key", key], "--tls-key needs --tls-cert as well"),
        (["--tls-cert", missing, "--tls-key", key], f"cannot read {missing}: No such file or directory"),
        (["--tls-cert", certificate, "--tls-key", missing], f"cannot read {missing}: No such file or directory"),
        (["--tls-cert", certificate, "--tls-key", str(tmp_path)], f"cannot read {tmp_path}: Is a directory"),
        (["--tls-cert", certificate, "--tls-key", other_key], f"{other_key} is not the key of the certificate"),
        (["--tls-cert", other, "--tls-key", key], f"{key} is not the key of the certificate {other}"),
        (["--tls-cert", str(nonsense), "--tls-key", key], "are not a certificate and its key in PEM form"),
        (["--tls-cert", key, "--tls-key", certificate], "are not a certificate and its key in PEM form"),
        (["--tls-cert", certificate, "--tls-key", locked], "is encrypted; give a key without a password"),
    ):
        assert main(["serve", "--port", "0", "--store", "memory://", *files]) == 2
        said = capsys.readouterr()
        assert says in said.err
        assert said.out == ""
        assert said.err.count("\n") == 1
