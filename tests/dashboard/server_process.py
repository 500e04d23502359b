"""`redrive serve` in a process of its own, which can be killed and started again at the same address."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from tests.ports import free_ports
from tests.wheel_install import ROOT

from redrive.server.access.api_keys import Role

PATIENCE = 60.0


class ServerProcess:
    """`redrive serve` on a store, with the definitions in `module` if one is given."""

    def __init__(
        self, store: str, folder: Path, module: Path | None = None, *options: str, command: str = "serve"
    ) -> None:
        self._command = command
        self._store = store
        self._module = module
        self._options = options
        self._log = folder / "serve.log"
        self._folder = folder
        self.port = free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and return when it is ready."""
        command = [sys.executable, "-m", "redrive", self._command, *([str(self._module)] if self._module else [])]
        command += ["--store", self._store, "--port", str(self.port), *self._options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that runs the tests
                command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        limit = time.monotonic() + PATIENCE
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < limit, self._log.read_text()
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End the process as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(5)
        self._process = None

    def key(self, role: Role, name: str = "board") -> str:
        """A new API key; from the first one on, each request needs one."""
        command = [
            sys.executable,
            "-m",
            "redrive",
            "keys",
            "add",
            "--store",
            self._store,
            "--role",
            role,
            "--name",
            name,
        ]
        made = subprocess.run(command, capture_output=True, text=True, check=True, cwd=self._folder)  # noqa: S603 - as above
        found = re.search(r"rdk_\S+", made.stdout)
        assert found, made.stdout
        return found[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self._process is not None:
            self.kill()
