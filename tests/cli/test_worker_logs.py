"""The log lines of `redrive worker`, as a process: those of actions in processes of their own are like all others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FLOWS = """
import logging
from redrive import action

log = logging.getLogger("shop")

@action(process=True)
def log_some(order: str) -> str:
    log.debug("too fine")
    log.info("asking for %s", order)
    log.warning("that \\x1b[31m was slow")
    return "done"
"""


@pytest.mark.parametrize(("level", "shown"), [("info", ["INFO", "WARNING"]), ("warning", ["WARNING"])])
def test_actions_in_processes_of_their_own_log_as_their_worker_does(
    tmp_path: Path, level: str, shown: list[str]
) -> None:
    (tmp_path / "flows.py").write_text(FLOWS)
    environment = {**os.environ, "REDRIVE_STORE": f"sqlite:///{tmp_path}/app.db"}
    command = [sys.executable, "-m", "redrive.cli"]

    def redrive(*arguments: str) -> str:
        return subprocess.check_output(  # noqa: S603 - our own command
            [*command, *arguments], text=True, env=environment, cwd=tmp_path, timeout=60
        )

    log = tmp_path / "log"
    with log.open("w") as file:
        worker = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "worker", "flows.py", "--log-level", level], stderr=file, env=environment, cwd=tmp_path
        )
    try:
        flow_id = redrive("start", "flows.py:log_some", "--input", '{"order": "o-1"}').strip()
        assert "done" in redrive("flows", "result", flow_id, "--timeout", "30s")
    finally:
        worker.terminate()
        worker.wait(30)
    lines = [line for line in log.read_text().splitlines() if "asking" in line or "slow" in line or "fine" in line]
    texts = {"INFO": "asking for o-1", "WARNING": "that \\x1b[31m was slow"}
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert len(lines) == len(shown), lines
    for line, name in zip(lines, shown, strict=True):
        assert re.fullmatch(rf"{time} {name} flow {flow_id} step log_some attempt 1: {re.escape(texts[name])}", line), (
            line
        )
