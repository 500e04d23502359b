"""Several failures that happened together."""

import asyncio

import pytest

from redrive.errors import Permanent, RetryAfter
from redrive.failures.classifier import Classifier

from .classifying import Odd, answered, failure_of


class TestGroups:
    @pytest.mark.promise("P1")
    def test_a_group_passes_only_if_all_in_it_may(self) -> None:
        group = ExceptionGroup("several", [ConnectionError("a"), ExceptionGroup("inner", [TimeoutError("b")])])
        failure = failure_of(group)
        assert failure.category == "transient"
        assert failure.reason.startswith("all 2 errors in the group are transient: ConnectionError (")
        assert failure.type == "ExceptionGroup"

    @pytest.mark.promise("P2")
    def test_one_permanent_error_makes_it_permanent(self) -> None:
        failure = failure_of(ExceptionGroup("several", [ConnectionError("a"), Odd(), ValueError("b")]))
        assert failure.category == "permanent"
        assert "1 of the 3 errors in the group is permanent: ValueError" in failure.reason

    @pytest.mark.promise("P4")
    def test_one_unknown_error_makes_it_unknown(self) -> None:
        failure = failure_of(ExceptionGroup("several", [ConnectionError("a"), Odd()]))
        assert failure.category == "unknown"
        assert "is not classified" in failure.reason
        assert "retry_on=(TRANSIENT, Odd)" in failure.reason

    def test_rules_are_asked_about_each_error_in_it(self) -> None:
        classifier = Classifier([(Odd, "transient")])
        assert failure_of(ExceptionGroup("several", [Odd(), ConnectionError()]), classifier).category == "transient"

    @pytest.mark.promise("P7", "P10")
    def test_the_longest_wait_and_the_least_certainty_hold(self) -> None:
        group = ExceptionGroup("several", [answered(429, Retry_After="5"), answered(429, Retry_After="20")])
        failure = failure_of(group)
        assert (failure.retry_after, failure.status, failure.not_sent) == (20.0, 429, True)
        mixed = failure_of(ExceptionGroup("several", [answered(429), answered(503)]))
        assert (mixed.status, mixed.not_sent) == (None, False)

    def test_signals_in_it_are_heard(self) -> None:
        assert failure_of(ExceptionGroup("several", [ConnectionError(), Permanent()])).marked_permanent
        assert failure_of(ExceptionGroup("several", [ConnectionError(), RetryAfter("9s")])).retry_after == 9.0

    def test_a_group_with_a_cancellation_is_never_retried(self) -> None:
        assert failure_of(BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError()])).marked_permanent

    def test_deep_and_wide_groups_are_read(self) -> None:
        group: ExceptionGroup[Exception] = ExceptionGroup("innermost", [ConnectionError()])
        for _ in range(5000):
            group = ExceptionGroup("around", [group])
        assert failure_of(group).category == "transient"
        wide = failure_of(ExceptionGroup("wide", [type(f"E{n}", (Exception,), {})() for n in range(200)]))
        assert "and 195 more" in wide.reason
