"""Graphs on the command line: run, start and worker take the files they are written in."""

import json
import subprocess
import sys
from pathlib import Path

from tests.http_handlers import handlers

GRAPH = """
graph: cli_order
goals: [ship]
steps:
  reserve:
    endpoint: URL/ok?outputs={"reservation":"r1"}
    inputs: {order: string}
    outputs: {reservation: string}
  ship:
    endpoint: URL/503?times=1&outputs={"parcel":"p1"}
    inputs: {order: string, reservation: string}
    outputs: {parcel: string}
    retry: {max_attempts: 2, backoff_base_ms: 10}
environments:
  once: {steps: {ship: {retry: {max_attempts: 1}}}}
"""


def redrive(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "redrive.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own command


def test_a_graph_is_run_from_its_file(tmp_path: Path) -> None:
    with handlers() as server:
        (tmp_path / "order.yaml").write_text(GRAPH.replace("URL", server.url))
        given = ("--input", '{"order": "o1"}', "--allow", "127.0.0.0/8")
        done = redrive(tmp_path, "run", "order.yaml", *given)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"parcel": "p1"})
        once = redrive(tmp_path, "run", "order.yaml", *given, "--env", "once")
        assert once.returncode == 1
        assert "step ship is failed" in once.stderr


def test_what_is_wrong_with_a_graph_or_its_input_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text(GRAPH.replace("URL", "http://127.0.0.1:9"))
    wrong = redrive(tmp_path, "start", "order.yaml", "--input", '{"ordr": "o1"}')
    assert wrong.returncode == 2
    assert "step reserve needs 'order'" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    (tmp_path / "bad.yaml").write_text("graph: bad\nsteps:\n  a: {endpoint: 'ftp://x', outputs: [v], dependson: [b]}\n")
    bad = redrive(tmp_path, "worker", "bad.yaml")
    assert bad.returncode == 2
    assert "bad.yaml:3" in bad.stderr
    assert "depends_on" in bad.stderr
