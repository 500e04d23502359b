"""The documentation is true: its code runs, its commands print what it shows, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import redrive
from redrive.notation import NOTATIONS, read_policy
from redrive.notation.linting.findings import RULES
from redrive.policies.decision import GiveUpKind

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
# tests/test_readme.py runs the README, each of its blocks alone.
run_pages = pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)


def run_docs(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", "-m", "tests.run_docs", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)  # noqa: S603 - our own command


@pytest.fixture(scope="module")
def ran() -> "subprocess.CompletedProcess[str]":
    return run_docs(*map(str, PAGES[1:]))


@run_pages
def test_code_runs_and_commands_print_what_is_shown(page: Path, ran: "subprocess.CompletedProcess[str]") -> None:
    assert ran.returncode in (0, 1), ran.stderr
    assert str(page) not in ran.stdout.splitlines(), ran.stderr


@pages
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        if anchor:
            assert anchor in anchors(other), target


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_measured_figures_have_the_command_beside_them(page: Path) -> None:
    """A table whose heads name a unit, as in `import (ms)`, is a table of figures."""
    for section in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if re.search(r"^\|.*\((ns|us|µs|ms|/s)\).*\|$", section, re.MULTILINE):
            assert re.search(r"python -m benchmarks\.\w+|make bench-\w+", section), section.splitlines()[0]


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert linked == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


def test_every_room_and_every_file_on_the_way_of_an_attempt_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    house = ROOT / "src" / "redrive"
    rooms = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert {*rooms} == {path.name for path in house.iterdir() if path.name[0] not in "_." and path.name != "py.typed"}
    for path in re.findall(r"`(\w+/[\w/.]*)`", page.partition("## Follow")[2].partition("\n## ")[0]):
        assert (house / path).exists(), path


def test_every_rule_of_the_linter_is_explained() -> None:
    """Ids, severities and titles are those of the linter, in its order."""
    page = (ROOT / "docs" / "lint-rules.md").read_text(encoding="utf-8")
    explained = re.findall(r"^## (RD\d+) \((\w+)\): (.+)$", page, re.MULTILINE)
    assert explained == [(rule, about.severity, about.summary) for rule, about in RULES.items()]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_shown_by_an_example_that_it_finds(rule: str) -> None:
    page = (ROOT / "docs" / "lint-rules.md").read_text(encoding="utf-8")
    section = page.partition(f"## {rule} ")[2].partition("\n## ")[0]
    command, code = rf"^\$ redrive policy lint .*\n(?:.*\n)*?.*: {rule} ", rf"^assert .*\blint\(.* == \[\"{rule}\"\]$"
    assert re.search(f"{command}|{code}", section, re.MULTILINE), section


def test_every_field_of_a_policy_is_explained_in_its_order() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    section = page.partition("## Fields")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(redrive.Policy.__struct_fields__)


def test_every_notation_is_shown_by_an_example_that_is_read_as_such() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    section = page.partition("## Notations")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"^\| `(\w+)`[^|]*\| `([^|]+)` \|", section, re.MULTILINE))
    assert [*shown] == [name for name in NOTATIONS if name != "native_json"]
    for notation, example in shown.items():
        assert read_policy(example).notation == notation


def test_the_table_of_categories_names_what_the_policy_gives_up_with() -> None:
    page = (ROOT / "docs" / "guard-a-call.md").read_text(encoding="utf-8")
    section = page.partition("## When it gives up")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(get_args(GiveUpKind))


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```console\n$ redrive policy lint --text 'attempts: 2'\nall bad\n```\n", "printed"),
        ("```console\n$ redrive policy lint --text 'attempts: 0'\n...\n```\n", "ended with 1, not 0"),
        ("```bash\nredrive policy preview\n```\n", "ended with 2, not 0"),
        ("```python\nimport socket\nsocket.create_connection(('192.0.2.1', 80))\n```\n", "must not look up"),
        ("```python\nx = 1\n```\n\n<!-- setup\ny = x + 1\n-->\n\n```python\nassert y == 2\n```\n", ""),
        ("```console exit=1\n$ redrive policy lint --text 'attempts: 0'\n...\n```\n", ""),
        ("```yaml file=a.yaml\nattempts: 2\n```\n\n```bash\nredrive policy preview a.yaml\n```\n", ""),
    ],
)
def test_a_page_that_is_not_true_is_found(tmp_path: Path, page: str, says: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    finished = run_docs(str(path))
    assert finished.returncode == bool(says), finished.stderr
    assert says in finished.stderr
