"""The benchmark measures every case and prints it in the shape all benchmarks share."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Short chains and our own system alone: what is checked is that it measures, not what.
SMALL = """
from benchmarks import pipeline
pipeline.STAGES["chain_10000_us"] = 200
pipeline.OURS_AT_LEAST = 1
pipeline.systems = lambda: {"redrive": pipeline.redrive_runner}
pipeline.main()
"""


def test_every_case_has_its_figure_as_json() -> None:
    command = [sys.executable, "-c", SMALL, "--quick", "--json"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)  # noqa: S603 - our own command
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout)
    assert [list(figure) for figure in figures] == [["system", "case", "value", "unit"]] * 3
    assert {figure["case"] for figure in figures} == {"chain_100_us", "parallel_100_us", "chain_10000_us"}
    assert "no chain_100_us for stageflow: it is not installed; use make bench-pipeline" in finished.stderr
    assert all(figure["value"] > 0 and figure["unit"] == "us" for figure in figures)
