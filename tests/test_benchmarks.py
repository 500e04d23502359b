"""The benchmark prints the figures of every system, in the shape all benchmarks share."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# One round: what is checked is that it measures, not what.
ONE_ROUND = "from benchmarks import calls; calls.QUICK_ROUNDS = calls.QUICK_IMPORTS = 1; calls.main()"

ALL = {"redrive", "tenacity", "stamina", "backoff", "redress", "hyx"}


def run_benchmark(*options: str) -> str:
    command = [sys.executable, "-c", ONE_ROUND, "--quick", *options]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own command
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_every_system_has_its_figures_as_json() -> None:
    figures = json.loads(run_benchmark("--json"))
    systems: dict[str, set[str]] = {}
    for figure in figures:
        assert list(figure) == ["system", "case", "value", "unit"]
        assert isinstance(figure["value"], float)
        assert figure["case"].endswith(f"_{figure['unit']}")
        systems.setdefault(figure["case"], set()).add(figure["system"])
    assert systems == {
        "success_sync_ns": ALL - {"hyx"} | {"bare"},
        "success_async_ns": ALL | {"bare"},
        "fail3_sync_us": ALL - {"hyx"} | {"bare"},
        "import_ms": ALL | {"asyncio"},
    }


def test_the_table_says_what_is_left_out_and_whether_budgets_are_met() -> None:
    shown = run_benchmark()
    assert all(system in shown for system in ALL)
    assert "no success_sync_ns for hyx: it guards coroutine functions only" in shown
    assert shown.count("budget ") == 3
