"""docs/promises.md and the tests name the same promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def write_promises(*options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.write_promises", *options]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)  # noqa: S603 - our own command
    return finished.returncode, finished.stdout + finished.stderr


def test_every_promise_is_proved_and_the_list_is_up_to_date() -> None:
    assert write_promises("--check") == (0, "")


@pytest.mark.promise("P19")
@pytest.mark.parametrize(
    ("what", "promises"),
    [
        ("transient and permanent failures are told apart", ("P1", "P2", "P4")),
        ("attempts are counted", ("T1",)),
        ("work that must not happen twice is safe", ("P10",)),
        ("Retry-After goes before the computed wait", ("P7",)),
        ("the timeout grows by half, once", ("P8",)),
        ("waits stay within their bounds", ("P5", "S3")),
        ("the total deadline holds", ("P6",)),
        ("409 is told apart by its declaration", ("P3",)),
    ],
)
def test_every_test_that_the_recovery_policy_asks_for_exists(what: str, promises: tuple[str, ...]) -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    for promise in promises:
        assert re.search(rf"^- \*\*{promise}\*\* .*\n  Proved by \[tests/", page, re.MULTILINE), f"{what}: {promise}"


PAGE = "# Promises\n\n- **P1** It works.\n"
MARKED = 'import pytest\n\n@pytest.mark.promise("P1")\ndef test_it() -> None: ...\n'
UP_TO_DATE = PAGE + "  Proved by [tests/test_it.py](../tests/test_it.py): `test_it`\n"


@pytest.mark.parametrize(
    ("page", "tests", "says"),
    [
        (UP_TO_DATE, MARKED, ""),
        (PAGE, MARKED, "out of date"),
        (UP_TO_DATE, "def test_it() -> None: ...\n", "P1 has no test"),
        (UP_TO_DATE, MARKED.replace('"P1"', '"P1", "P2"'), "P2 is not listed in docs/promises.md"),
        (UP_TO_DATE, MARKED.replace('"P1"', "NAME"), "a promise is named by a plain string"),
        (UP_TO_DATE + "- **P1** Again.\n", MARKED, "P1 is listed twice"),
        (UP_TO_DATE, "import pytest\n\npytestmark = pytest.mark.promise('P1')\n\ndef test_it(): ...\n", ""),
        (UP_TO_DATE, "import pytest\n\n@pytest.mark.promise('P1')\nclass Test:\n    def test_it(self): ...\n", ""),
    ],
)
def test_a_list_that_does_not_fit_the_tests_is_found(tmp_path: Path, page: str, tests: str, says: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs" / "promises.md").write_text(page)
    (tmp_path / "tests" / "test_it.py").write_text(tests)
    code, output = write_promises("--check", "--root", str(tmp_path))
    assert code == bool(says), output
    assert says in output
