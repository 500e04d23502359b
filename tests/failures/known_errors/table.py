"""The table of docs/known-errors.md: a row for each library, a column for each failure."""

from pathlib import Path

from tests.misbehaving.failures import COLUMNS, NETWORK_FAILURES, NOT_SENT, STATUSES
from tests.misbehaving.library import Library, failure_of

from redrive.failures.failure import Failure

PAGE = Path(__file__).parents[3] / "docs" / "known-errors.md"
BEGIN = "<!-- made by python -m tests.failures.known_errors.write_table -->"
END = "<!-- end -->"
DOES_NOT_APPLY = ""


def cell(failure: Failure) -> str:
    return f"{failure.category}, not sent" if failure.not_sent else failure.category


def row(library: Library) -> str:
    cells = [cell(failure_of(library, how)) if how not in library.without else DOES_NOT_APPLY for how in COLUMNS]
    return f"| {library.name} | " + " | ".join(cells) + " |"


def heading() -> list[str]:
    return ["| library | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]


def check_network_failure(library: Library, how: str, has_status: bool = False) -> None:
    """A network failure is transient; it is marked as not sent where that is certain, and nowhere else."""
    failure = failure_of(library, how)
    # Else the test would prove that causes are looked at, and not that the library is in the tables.
    assert "is not known by itself" not in failure.reason, failure
    assert failure.category == "transient", failure
    assert failure.not_sent == (how in NOT_SENT and how not in library.unsure), failure
    assert has_status or failure.status is None, failure


def check_status(library: Library, how: str, conflicts_pass: bool = False) -> None:
    """A response is classified by its status, and its Retry-After is read."""
    failure = failure_of(library, how)
    passes = how in ("429", "500", "503") or (how == "409" and conflicts_pass)
    assert failure.category == ("transient" if passes else "permanent"), failure
    assert (failure.status, failure.retry_after) == (int(how), 7.0), failure


def check_row(library: Library) -> None:
    """The page shows what the classifier says today."""
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert row(library) in page, (
        "docs/known-errors.md is out of date: python -m tests.failures.known_errors.write_table"
    )


__all__ = ["NETWORK_FAILURES", "STATUSES", "check_network_failure", "check_row", "check_status"]
