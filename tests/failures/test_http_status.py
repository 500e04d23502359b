"""The table of HTTP statuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.failure import Category
from redrive.failures.http_status import STATUSES, status_verdict

TRANSIENT_CLIENT_ERRORS = {408, 425, 429}


@pytest.mark.promise("S1", "A3", "A6", "P1", "P2")
@pytest.mark.parametrize("status", range(400, 600))
def test_every_error_status_is_in_its_category(status: int) -> None:
    verdict = status_verdict(status)
    expected = "transient" if status in TRANSIENT_CLIENT_ERRORS or status >= 500 else "permanent"
    assert verdict.category == expected
    assert verdict.status == status
    assert verdict.reason.startswith(f"{status} ")


@pytest.mark.promise("S1")
@pytest.mark.parametrize(
    ("status", "category"),
    [
        (429, "transient"),
        (503, "transient"),
        (500, "transient"),
        (400, "permanent"),
        (401, "permanent"),
        (404, "permanent"),
    ],
)
def test_the_statuses_the_stage_document_names(status: int, category: Category) -> None:
    assert status_verdict(status).category == category


def test_the_reason_is_in_words() -> None:
    assert status_verdict(429).reason == "429 Too Many Requests: the rate limit resets over time"
    assert status_verdict(404).reason == "404 Not Found: the resource does not exist"
    assert status_verdict(599).reason == "599 server error: a server failure may be temporary"
    assert status_verdict(499).reason == "499 client error: the same request is rejected again"


@pytest.mark.parametrize("status", [-1, 0, 99, 100, 101, 200, 204, 301, 304, 600, 1000])
def test_what_is_no_failure_is_unknown_and_says_so(status: int) -> None:
    verdict = status_verdict(status)
    assert verdict.category == "unknown"
    assert "not a failure" in verdict.reason or "not an HTTP status" in verdict.reason


@pytest.mark.promise("P3")
def test_a_conflict_is_permanent_unless_it_is_declared_a_lock() -> None:
    assert status_verdict(409).category == "permanent"
    declared = status_verdict(409, conflict_is_lock=True)
    assert declared.category == "transient"
    assert "declared an optimistic-lock conflict; the state is re-read before the retry" in declared.reason


def test_declaring_conflicts_locks_changes_nothing_else() -> None:
    for status in range(100, 600):
        if status != 409:
            assert status_verdict(status, conflict_is_lock=True) == status_verdict(status)


@pytest.mark.promise("A6")
@given(st.integers(100, 599), st.sampled_from(["transient", "permanent", "unknown"]), st.booleans())
def test_a_step_can_override_any_status(status: int, category: Any, lock: bool) -> None:
    verdict = status_verdict(status, overrides={status: category}, conflict_is_lock=lock)
    assert verdict.category == category
    assert f"declared {category}" in verdict.reason
    other = 100 if status == 599 else status + 1
    assert status_verdict(other, overrides={status: category}) == status_verdict(other)


@pytest.mark.promise("P10")
def test_only_refusals_before_processing_were_certainly_not_processed() -> None:
    assert {status for status in range(100, 600) if status_verdict(status).not_sent} == {425, 429}


def test_retry_after_is_kept_as_it_was_sent() -> None:
    assert status_verdict(503, retry_after=" 30 ").retry_after == " 30 "
    assert status_verdict(503).retry_after is None


def test_every_row_says_why() -> None:
    for status, (_, title, why) in STATUSES.items():
        assert 400 <= status <= 599
        assert title
        assert len(why) > 10
