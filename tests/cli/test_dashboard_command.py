"""`redrive dashboard`: the page and the API over a store, without a worker, and read-only unless told otherwise."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running_command import RunningCommands
from tests.cli.test_serve import SHOP, Command, run  # noqa: F401 - a fixture

WHY = {"why": "a test"}


@pytest.fixture
def flow(run: Command) -> str:  # noqa: F811 - a fixture
    started = run("start", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}')
    assert started.code == 0, started.err
    return started.out.strip()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[RunningCommands]:
    with RunningCommands(tmp_path, "dashboard", r"redrive dashboard: (http://\S+)/ \(") as begin:
        yield begin


def test_it_shows_and_changes_nothing(dashboard: RunningCommands, flow: str) -> None:
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
    assert shown.stop() == 0


def test_with_operate_it_may(dashboard: RunningCommands, flow: str) -> None:
    shown = dashboard("--operate")
    assert "flows can be changed" in shown.said
    assert shown.client.get("/v1/session").json()["read_only"] is False
    assert shown.client.post(f"/v1/flows/{flow}/cancel", json=WHY).status_code == 202
    # Nobody runs flows here.
    assert shown.client.get(f"/v1/flows/{flow}").json()["status"] == "ready"


def test_with_keys_it_asks_for_one(dashboard: RunningCommands, flow: str, run: Command) -> None:  # noqa: F811 - a fixture
    key = run("keys", "add", "--role", "operate", "--name", "anna").out.strip().splitlines()[-1].split()[-1]
    shown = dashboard()
    assert shown.client.get("/v1/flows").status_code == 401
    assert shown.client.post("/v1/session", json={"key": key}).status_code == 200
    assert shown.client.get("/v1/flows").status_code == 200
    assert shown.client.delete("/v1/session", headers={"X-Redrive-Request": "1"}).status_code == 204


def test_it_opens_in_the_browser(dashboard: RunningCommands, flow: str, tmp_path: Path) -> None:
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
