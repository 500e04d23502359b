"""The wheel has all files of the package, not only its Python: the dashboard is served from it."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = ("__pycache__",)


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)  # noqa: S603 - our own command
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        shipped = set(packed.namelist())
    package = ROOT / "src" / "redrive"
    files = {
        f"redrive/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and not any(part in NOT_SHIPPED for part in path.parts)
    }
    assert any(name.endswith(".sql") for name in files)
    assert sorted(files - shipped) == []
