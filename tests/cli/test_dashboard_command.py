"""`redrive dashboard`: the page and the API over a store, without a worker, and read-only unless told otherwise."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.test_serve import SHOP, Command, run  # noqa: F401 - a fixture

PATIENCE = 30.0
WHY = {"why": "a test"}


class Dashboard:
    def __init__(self, process: "subprocess.Popen[str]", output: Path) -> None:
        self.process = process
        self._output = output
        found = self.until(lambda: re.search(r"redrive dashboard: (http://\S+)/ \(", self.said))
        self.client = httpx.Client(base_url=found[1], timeout=PATIENCE)

    @property
    def said(self) -> str:
        return self._output.read_text()

    def until(self, look: Callable[[], Any]) -> Any:
        limit = time.monotonic() + PATIENCE
        while not (found := look()):
            assert time.monotonic() < limit, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        return found


@pytest.fixture
def flow(run: Command) -> str:  # noqa: F811 - a fixture
    started = run("start", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}')
    assert started.code == 0, started.err
    return started.out.strip()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., Dashboard]]:
    processes: list[subprocess.Popen[str]] = []
    opened: list[Dashboard] = []

    def begin(*arguments: str, **environ: str) -> Dashboard:
        output = tmp_path / f"output-{len(processes)}"
        with output.open("w") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "redrive.cli", "dashboard", "--port", "0", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "REDRIVE_STORE": f"sqlite:///{tmp_path}/app.db", **environ},
            )
        processes.append(process)
        opened.append(Dashboard(process, output))
        return opened[-1]

    yield begin
    for one in opened:
        one.client.close()
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_it_shows_and_changes_nothing(dashboard: Callable[..., Dashboard], flow: str) -> None:
    shown = dashboard()
    assert "read-only; --operate allows changes; no API keys, for this machine only; store sqlite:///" in shown.said
    assert shown.client.get(f"/v1/flows/{flow}").json()["status"] == "ready"
    assert shown.client.get("/v1/session").json()["read_only"] is True
    assert shown.client.get("/v1/audit").status_code == 200
    assert shown.client.get("/v1/workers").json()["workers"] == []
    for method, path, body in (
        ("POST", f"/v1/flows/{flow}/cancel", WHY),
        ("POST", f"/v1/flows/{flow}/retry", WHY),
        ("POST", "/v1/flows/bulk", {"action": "cancel", "filter": {"queue": "default"}, **WHY}),
        ("POST", "/v1/flows", {"action": "cli_pay"}),
        ("POST", "/v1/dead-letters/redrive", {"all": True, **WHY}),
        ("POST", "/v1/queues/default/pause", WHY),
        ("PUT", "/v1/queues/default", {"limit": 1}),
        ("DELETE", "/v1/steps/none", None),
        ("POST", "/v1/completions/nonsense", {}),
    ):
        answer = shown.client.request(method, path, json=body)
        assert answer.status_code == 403, path
        assert "read-only; redrive dashboard --operate" in answer.json()["detail"]
    assert shown.client.post("/v1/policies", json={"text": "[retry: 3]"}).status_code == 200
    assert shown.client.get(f"/v1/flows/{flow}").json()["status"] == "ready"
    shown.process.send_signal(signal.SIGTERM)
    assert shown.process.wait(PATIENCE) == 0


def test_with_operate_it_may(dashboard: Callable[..., Dashboard], flow: str) -> None:
    shown = dashboard("--operate")
    assert "flows can be changed" in shown.said
    assert shown.client.get("/v1/session").json()["read_only"] is False
    assert shown.client.post(f"/v1/flows/{flow}/cancel", json=WHY).status_code == 202
    # Nobody runs flows here.
    assert shown.client.get(f"/v1/flows/{flow}").json()["status"] == "ready"


def test_with_keys_it_asks_for_one(dashboard: Callable[..., Dashboard], flow: str, run: Command) -> None:  # noqa: F811 - a fixture
    key = run("keys", "add", "--role", "operate", "--name", "anna").out.strip().splitlines()[-1].split()[-1]
    shown = dashboard()
    assert shown.client.get("/v1/flows").status_code == 401
    assert shown.client.post("/v1/session", json={"key": key}).status_code == 200
    assert shown.client.get("/v1/flows").status_code == 200
    assert shown.client.delete("/v1/session", headers={"X-Redrive-Request": "1"}).status_code == 204


def test_it_opens_in_the_browser(dashboard: Callable[..., Dashboard], flow: str, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{opened}"\n')
    browser.chmod(0o755)
    shown = dashboard("--open", BROWSER=str(browser))
    shown.until(lambda: opened.exists() and opened.read_text())
    assert opened.read_text().strip() == f"{shown.client.base_url}/".replace("//", "/").replace("http:/", "http://")


def test_a_store_that_is_not_there_is_refused(run: Command) -> None:  # noqa: F811 - a fixture
    assert "there is no such file; name the store with --store" in run("dashboard", "--port", "0").refused()
    assert "a store in memory ends with this command" in run("dashboard", "--store", "memory://").refused()
    assert "--tls-cert needs --tls-key as well" in run("dashboard", "--tls-cert", "chain.pem").refused()
