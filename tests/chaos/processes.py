"""The processes of a storm: workers, a server and handlers that are killed, frozen, stopped and started again."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from tests.chaos import definitions, effects
from tests.chaos.network import Network
from tests.chaos.worker import set_clock
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
READY_WITHIN = 60.0


class ManagedProcess:
    """One process of the fleet, which is started again in the same place after it was killed."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.is_frozen = False
        self._command = command
        self._env = env
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        with self._lock, self.log.open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own process
                self._command, cwd=ROOT, env=self._env, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def wait_until_ready(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        timer = threading.Timer(READY_WITHIN, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        assert line, f"{self.name} did not start: {self.log.read_text()[-2000:]}"

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(number)

    def freeze(self) -> None:
        self.is_frozen = True
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.reap()

    def reap(self) -> int | None:
        """Wait for its end and return its exit code."""
        with self._lock:
            if self._process is None:
                return None
            code = self._process.wait(60)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        self.is_frozen = False
        return code


class Fleet:
    """Workers, and where the storm has HTTP steps also a server and handlers."""

    def __init__(
        self, address: str, folder: Path, *, workers: int, lease: float, with_handlers: bool, network: Network | None
    ) -> None:
        """network: workers reach the store through it, each by a link of its own."""
        self.effects_file, self.mended_file = folder / "effects", folder / "mended"
        self.effects_file.touch()
        self.server_port, self.handlers_port = free_ports(), free_ports()
        self.env = {
            **os.environ,
            effects.FILE: str(self.effects_file),
            definitions.MENDED: str(self.mended_file),
        }
        if with_handlers:
            self.env[definitions.HANDLERS] = f"http://127.0.0.1:{self.handlers_port}"
        self.clocks: list[Path] = []
        self.workers: list[ManagedProcess] = []
        self.others: list[ManagedProcess] = []
        for number in range(workers):
            # All that share a SQLite file are on one machine, and have its clock.
            clock = folder / ("clock" if network is None else f"clock-{number}")
            if clock not in self.clocks:
                set_clock(clock, 0.0)
                self.clocks.append(clock)
            reached = address if network is None else through(address, network.port(number))
            command = [
                *(sys.executable, "-m", "tests.chaos.worker", str(clock)),
                *("worker", "tests.chaos.definitions", "--lease", f"{lease}s", "--grace", "5s"),
                *("--allow", "127.0.0.0/8", "--callback-base", f"http://127.0.0.1:{self.server_port}"),
                *("--log-level", "warning", "--store", reached),
            ]
            self.workers.append(ManagedProcess(f"worker-{number}", command, self.env, folder))
        if with_handlers:
            served = [
                *(sys.executable, "-m", "redrive.cli", "serve", "tests.chaos.definitions", "--no-worker"),
                *("--port", str(self.server_port), "--log-level", "warning", "--store", address),
            ]
            self.others.append(ManagedProcess("server", served, self.env, folder))
            handling = [sys.executable, "-m", "tests.chaos.handlers", str(self.handlers_port)]
            self.others.append(ManagedProcess("handlers", handling, self.env, folder))

    @property
    def server_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        everything = [*self.others, *self.workers]
        for process in everything:
            process.start()
        for process in everything:
            process.wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers, *self.others):
            process.kill()


def through(address: str, port: int) -> str:
    """The same store, by another port of this machine."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}"))
