"""A worker in a process of its own, which can be killed."""

import signal
import subprocess
import sys
from pathlib import Path

from redrive.demo.terminal import say
from redrive.determinism.clock import SYSTEM_CLOCK


class WorkerProcess:
    """Runs `redrive worker MODULE` in a process of its own."""

    def __init__(self, log: Path, module: str, *options: str) -> None:
        command = [sys.executable, "-m", "redrive.cli", "worker", module, *options]
        began = SYSTEM_CLOCK.monotonic()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)  # noqa: S603 - our own command
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if not ready:
            raise RuntimeError(f"the worker did not start:\n{log.read_text()}")
        took = SYSTEM_CLOCK.monotonic() - began
        say(f"$ redrive worker {module}   [dim](process {self.pid}, ready in {took:.1f} s)[/]")

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
