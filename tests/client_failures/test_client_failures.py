"""Every cell of docs/client-failures.md is played again, in a process that imports all libraries."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from .cells import Cell
from .failures import RETRY_AFTERS, VENDORS
from .page import PAGE, page

ROOT = Path(__file__).parents[2]
# The date of a Retry-After has no fractions of a second, and some time has passed when it is read.
INEXACT = 5.0


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    command = [sys.executable, "-m", "tests.client_failures", "--json"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)  # noqa: S603 - our own command
    assert finished.returncode == 0, finished.stderr
    return msgspec.json.decode(finished.stdout, type=list[Cell])


def of(cells: list[Cell], section: str) -> list[Cell]:
    found = [cell for cell in cells if cell.section == section]
    assert len({cell.library for cell in found}) > 4
    return found


@pytest.mark.promise("L2", "L3")
def test_the_page_shows_what_happens(cells: list[Cell]) -> None:
    shown = PAGE.read_text(encoding="utf-8")
    assert page(shown, cells) == shown, "docs/client-failures.md is out of date: python -m tests.client_failures"


@pytest.mark.promise("L2")
def test_every_network_failure_is_retried_whichever_library_reports_it(cells: list[Cell]) -> None:
    wrong = [
        cell for cell in of(cells, "network") if (cell.text(), cell.category, cell.made) != ("retried", "transient", 3)
    ]
    assert wrong == []


@pytest.mark.promise("L2")
def test_nothing_is_unknown(cells: list[Cell]) -> None:
    assert [cell for cell in cells if cell.category == "unknown"] == []


@pytest.mark.promise("L3")
def test_a_wait_that_the_server_asks_for_is_the_wait_that_is_made(cells: list[Cell]) -> None:
    told = {
        one.title: one.told
        for one in (*RETRY_AFTERS, *VENDORS["grpc"], *VENDORS["google-genai"])
        if one.told is not None
    }
    asked = [cell for cell in cells if cell.failure in told]
    assert {cell.failure for cell in asked} == set(told)
    for cell in asked:
        seconds, inexact = told[cell.failure], INEXACT if "date" in cell.failure else 0.001
        assert len(cell.waits) == 2, cell
        assert all(seconds - inexact <= wait <= seconds + 0.001 for wait in cell.waits), cell


@pytest.mark.promise("L3")
def test_an_absurd_wait_is_neither_waited_nor_taken_for_none(cells: list[Cell]) -> None:
    kinds = {(cell.failure, cell.text()) for cell in of(cells, "retry_after") if cell.failure[:2] in ("`s", "`-", "`6")}
    assert kinds == {("`soon`", "retried"), ("`-5`", "retried"), ("`604800` (a week)", "gave up: retry_after")}


@pytest.mark.promise("L3")
def test_statuses_go_by_the_table_and_conflicts_by_their_vendor(cells: list[Cell]) -> None:
    statuses = of(cells, "statuses")
    # Else a library might have failed in another way than the table says.
    assert [cell for cell in statuses if str(cell.status) != cell.failure] == []
    assert {cell.status for cell in of(cells, "retry_after")} == {429}
    assert {cell.text() for cell in statuses if cell.failure != "409"} == {"retried"}
    lock = {cell.library for cell in statuses if cell.failure == "409" and cell.text() == "retried"}
    assert lock == {"openai", "anthropic", "stripe"}


@pytest.mark.promise("L3")
def test_vendors_own_words_are_obeyed(cells: list[Cell]) -> None:
    vendors = of(cells, "vendors")
    final = {cell.failure for cell in vendors if cell.text() == "gave up: permanent"}
    assert final == {
        "429 `insufficient_quota`",
        "`insufficient_quota` in a stream that began with 200",
        "`UNAVAILABLE, grpc-retry-pushback-ms: -1`",
    }
    assert {cell.made for cell in vendors if cell.failure in final} == {1}
    assert {cell.text() for cell in vendors if cell.failure not in final} == {"retried", "waited as told"}
