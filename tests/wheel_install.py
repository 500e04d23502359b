"""Builds the wheel and installs it into a virtual environment that has nothing else but its dependencies."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]


class WheelInstall:
    """A fresh environment in which a reader has installed redrive from its wheel.

    Dependencies are links to those of this environment, so that nothing is downloaded. Those of extras are in a folder
    of their own, and only seen by what asks for them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wheels = folder / "wheels"
        self._bin = folder / "venv" / "bin"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(self._wheels)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)  # noqa: S603 - our own command
        venv.create(folder / "venv", symlinks=True)
        [site] = (folder / "venv").glob("lib/python*/site-packages")
        link(site, "pip", *dependencies())
        (self._bin / "pip").write_text(f'#!/bin/sh\nexec "{self._bin}/python" -m pip "$@"\n')
        (self._bin / "pip").chmod(0o755)

    def run(self, command: list[str], cwd: Path, *, extra: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command as a reader would, with the environment activated, and both outputs in one."""
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REDRIVE", "COV"))
        }
        environ["PATH"] = f"{self._bin}{os.pathsep}{environ['PATH']}"
        environ |= {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(self._wheels), "PIP_NO_COMPILE": "1"}
        if extra:
            environ["PYTHONPATH"] = str(self._extra(extra))
        return subprocess.run(  # noqa: S603 - what the documentation shows
            command, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )

    def _extra(self, extra: str) -> Path:
        folder = self._folder / f"extra-{extra}"
        if not folder.exists():
            folder.mkdir()
            link(folder, *set(dependencies(extra)) - set(dependencies()))
        return folder


def dependencies(extra: str = "") -> list[str]:
    """The names of the distributions that redrive needs with one of its extras, and of those that these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    found: dict[str, None] = {}
    while needed:
        requirement = needed.pop()
        name = re.match(r"[\w.-]+", requirement)
        if name and "extra ==" not in requirement and name[0] not in found and installed(name[0]):
            found[name[0]] = None
            needed += distribution(name[0]).requires or ()
    return [*found]


def installed(name: str) -> bool:
    """False for what is only needed on another platform."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def link(site: Path, *names: str) -> None:
    for name in names:
        about = distribution(name)
        for top in {file.parts[0] for file in about.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(about.locate_file(top))))
