"""mypy and pyright agree on `api.py`: types are kept, and what must be an error is one."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--no-incremental"],
    # Told which interpreter it is, since it would look for the installed packages of another one.
    "pyright": [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_see_the_types_that_users_wrote(checker: str) -> None:
    command = [*CHECKERS[checker], str(HERE / "api.py")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)  # noqa: S603 - our own command
    assert finished.returncode == 0, finished.stdout + finished.stderr
