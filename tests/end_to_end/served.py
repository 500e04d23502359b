"""`redrive serve` as a process that can be killed, at a port that it gets back."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_ports

ROOT = Path(__file__).parents[2]


class ServedApp:
    def __init__(self, address: str, *options: str) -> None:
        """`options`: more of the command line."""
        self.address = address
        self._options = options
        self.port = free_ports()
        self._process: subprocess.Popen[str] | None = None
        self.takes = 0.0
        """Seconds that it took to start."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Wait until it says that it serves."""
        assert self._process is None
        began = time.monotonic()
        options = ["--port", str(self.port), "--allow", "private", "--log-level", "error", "--store", self.address]
        options += self._options
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "redrive.cli", "serve", *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("redrive serves ")
        self.takes = time.monotonic() - began

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextlib.contextmanager
def served(address: str, *options: str) -> Iterator[ServedApp]:
    server = ServedApp(address, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
