"""A `redrive` command that goes on until it is stopped, in a process of its own, and a client of what it serves."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

PATIENCE = 30.0


class RunningCommand:
    """Ready once it has said the URL that it serves."""

    def __init__(self, process: "subprocess.Popen[str]", output: Path, says_url: str) -> None:
        self.process = process
        self._output = output
        found = self.until(lambda: re.search(says_url, self.said))
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

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


class RunningCommands:
    """Begins commands on the store `app.db` in a folder, and ends those that are left."""

    def __init__(self, folder: Path, name: str, says_url: str) -> None:
        self._folder, self._name, self._says_url = folder, name, says_url
        self._processes: list[subprocess.Popen[str]] = []
        self._begun: list[RunningCommand] = []

    def __call__(self, *arguments: str, **environ: str) -> RunningCommand:
        output = self._folder / f"output-{len(self._processes)}"
        with output.open("w") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "redrive.cli", self._name, "--port", "0", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "REDRIVE_STORE": f"sqlite:///{self._folder}/app.db", **environ},
            )
        self._processes.append(process)
        self._begun.append(RunningCommand(process, output, self._says_url))
        return self._begun[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._begun:
            one.client.close()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
