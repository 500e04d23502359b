"""The engine's benchmark prints its figures in the shape all benchmarks share, on what the stores alone can do."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_benchmark(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.engine", "--quick", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own command


def test_the_limits_of_both_stores_are_measured_as_json() -> None:
    finished = run_benchmark("--json", "--only", "limit-sqlite", "limit-postgres")
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout)
    assert [list(figure) for figure in figures] == [["system", "case", "value", "unit"]] * 6
    assert [(figure["system"], figure["case"]) for figure in figures] == [
        (system, case)
        for system in ("limit-sqlite", "limit-postgres")
        for case in ("start_p50_ms", "start_p99_ms", "commits")
    ]
    assert all(isinstance(figure["value"], float) and figure["value"] > 0 for figure in figures)


def test_the_bare_commits_that_steps_took_turns_with_are_those_of_the_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.engine_peers.measure", "redrive-sqlite", f"sqlite:///{tmp_path}/a.db"]
    finished = subprocess.run(  # noqa: S603 - our own command
        [*command, "quick", "steps_1"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    figures = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [(figure["system"], figure["case"]) for figure in figures] == [
        ("redrive-sqlite", "steps_1"),
        ("limit-sqlite", "commits"),
    ]


def test_the_table_shows_the_figures_and_what_each_case_means() -> None:
    finished = run_benchmark("--only", "limit-sqlite")
    assert finished.returncode == 0, finished.stderr
    assert "limit-sqlite" in finished.stdout
    assert "steps_1: durable steps of flows of 100 steps, one flow after the other" in finished.stdout
    assert "measuring: limit-sqlite: start, commits" in finished.stderr


def test_a_system_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    finished = run_benchmark("--only", "celery")
    assert finished.returncode == 2
    assert "redrive-postgres" in finished.stderr
