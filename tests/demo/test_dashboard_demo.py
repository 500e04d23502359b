"""`redrive demo --dashboard` serves a page with flows on it, until Ctrl-C, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

PATIENCE = 30.0


def test_it_serves_a_busy_shop_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "redrive", "demo", "--dashboard", "--port", "0"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE")}
    environ["TMPDIR"] = str(tmp_path)
    demo = subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, cwd=tmp_path
    )
    assert demo.stdout is not None
    try:
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "redrive serves" in line:
                break
        found = re.search(r"redrive serves (http://\S+):", "".join(lines))
        assert found is not None, "".join(lines)
        with httpx.Client(base_url=found[1], timeout=PATIENCE, trust_env=False) as client:
            assert "<title>redrive</title>" in client.get("/").text
            limit = time.monotonic() + PATIENCE
            while not client.get("/v1/flows", params={"status": "completed"}).json()["flows"]:
                assert time.monotonic() < limit, "no flow was completed"
                time.sleep(0.1)
            workers = client.get("/v1/workers").json()["workers"]
            assert [one["alive"] for one in workers] == [True, True]
            [mail] = [one for one in client.get("/v1/queues").json()["queues"] if one["name"] == "mail"]
            assert mail["limit"] == 3
    finally:
        demo.send_signal(signal.SIGINT)
        rest = demo.communicate(timeout=PATIENCE)[0]
    assert demo.returncode == 0, rest
    assert [*tmp_path.iterdir()] == []
