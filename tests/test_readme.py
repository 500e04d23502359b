"""The README is true as a reader tries it: each block alone, pasted in an empty folder, with redrive from its wheel."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.readme_blocks import DEMO, README, Block, blocks, check_output
from tests.test_house import PUBLIC_MODULES
from tests.wheel_install import ROOT, WheelInstall

MOST_LINES = 250
INSTALL = "pip install"

BLOCKS = [block for block in blocks() if DEMO not in block.body]  # tests/test_demo.py runs the demo
RUN = [block for block in BLOCKS if INSTALL not in block.body]
[INSTALLING] = [block for block in BLOCKS if INSTALL in block.body]


def console_lines(body: str) -> list[str]:
    return [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]


class Outcome(NamedTuple):
    code: int
    printed: str


def paste(block: Block, install: WheelInstall, folder: Path) -> Outcome:
    folder.mkdir()
    if block.language == "python":
        (folder / "pasted.py").write_text(block.body)
        command = ["python", "-W", "error", "pasted.py"]
    else:
        lines = console_lines(block.body) if block.language == "console" else [block.body]
        command = ["bash", "-e", "-c", "\n".join(lines)]
    finished = install.run(command, folder, extra=block.extra)
    return Outcome(finished.returncode, finished.stdout)


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> WheelInstall:
    return WheelInstall(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def outcomes(install: WheelInstall, tmp_path_factory: pytest.TempPathFactory) -> dict[Block, Outcome]:
    """Run all blocks at once: most of their time is waiting for the next attempt."""
    folder = tmp_path_factory.mktemp("readme")
    done = {INSTALLING: paste(INSTALLING, install, folder / "install")}
    with ThreadPoolExecutor(4) as pool:
        ran = pool.map(lambda block: paste(block, install, folder / f"line-{block.line}"), RUN)
    return done | dict(zip(RUN, ran, strict=True))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.language}-line-{block.line}")
def test_a_block_runs_as_pasted_and_prints_what_is_shown(block: Block, outcomes: dict[Block, Outcome]) -> None:
    outcome = outcomes[block]
    assert outcome.code == 0, outcome.printed
    if block.language == "console":
        check_output("\n".join(line for line in block.body.splitlines() if not line.startswith("$ ")), outcome.printed)
    elif block != INSTALLING:
        assert block.output, "show below the block what it prints"
        check_output(block.output, outcome.printed)


def test_the_blocks_use_the_wheel_and_nothing_but_its_dependencies(
    outcomes: dict[Block, Outcome], install: WheelInstall, tmp_path: Path
) -> None:
    script = "import importlib.util as find, redrive; print(redrive.__file__, find.find_spec('aiohttp'))"
    where, extra = install.run(["python", "-c", script], tmp_path).stdout.split()
    assert "site-packages" in where
    assert not Path(where).is_relative_to(ROOT)
    assert extra == "None"


IMPORTING = """
import importlib, pkgutil, redrive

for module in pkgutil.walk_packages(redrive.__path__, "redrive.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            print(module.name, str(error).partition("\\n")[0])
"""
NEED_EXTRAS = ("redrive.integrations.", "redrive.server.", "redrive.handlers.", "redrive.runners.http.")
NEED_THE_REST = {
    "redrive.cli.processes.server_process",
    "redrive.testing.pytest_plugin",
    "redrive.testing.store_conformance",
}


def test_without_extras_all_in_process_modules_are_there_and_the_others_name_theirs(
    outcomes: dict[Block, Outcome], install: WheelInstall, tmp_path: Path
) -> None:
    finished = install.run(["python", "-W", "error", "-c", IMPORTING], tmp_path)
    assert finished.returncode == 0, finished.stdout
    missing = dict(line.split(" ", 1) for line in finished.stdout.splitlines())
    assert {name for name in missing if not name.startswith(NEED_EXTRAS)} == NEED_THE_REST
    assert "redrive.integrations.httpx" in missing
    unclear = [
        f"{name}: {missing[name]}" for name in PUBLIC_MODULES if "pip install" not in missing.get(name, "pip install")
    ]
    assert unclear == []


def test_the_readme_has_no_hidden_set_up_and_stays_short() -> None:
    text = README.read_text(encoding="utf-8")
    assert "<!--" not in text
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("waited 0.500 s", "waited 1.250 s", True),
        ("+16ms  retry in 1s, at 01:44:38.895", "+1.02s    retry in 525ms, at 03:30:15.569", True),
        ("attempt 1 of 3 failed: ...", "attempt 1 of 3 failed: reset", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("attempt 1 of 3", "attempt 2 of 3", False),
        ("a", "a\nb", False),
    ],
)
def test_output_that_differs_is_found(shown: str, printed: str, fits: bool) -> None:
    if fits:
        check_output(shown, printed)
    else:
        with pytest.raises(AssertionError):
            check_output(shown, printed)
