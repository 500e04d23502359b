"""Errors that say nothing by themselves are classified by what caused them."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import yaml

from redrive.errors import LeaseLostError, Permanent, RetryAfter
from redrive.failures.classifier import Classifier

from .asking import error_of
from .classifying import Odd, answered, failure_of


class Wrapper(Exception):
    """Of the user's own code."""


class InstalledError(Exception):
    """Stands for an error of a library that is installed: only its module matters."""


InstalledError.__module__ = yaml.__name__


def raised_from(error: Exception, *causes: BaseException) -> Exception:
    """The error, raised from the first cause, which was raised from the second, and so on."""
    outer: BaseException = error
    for cause in causes:
        outer.__cause__ = cause
        outer = cause
    return error


def raised_while_handling(raised: Exception, handled: Exception, hidden: bool = False) -> Exception:
    def handle() -> None:
        try:
            raise handled
        except Exception:
            if hidden:
                raise raised from None
            raise raised  # noqa: B904 - the context is what the tests are about

    return error_of(handle)


@pytest.mark.promise("L2")
class TestExplicitCauses:
    def test_a_cause_decides_and_the_reason_says_which(self) -> None:
        failure = failure_of(raised_from(Wrapper("x"), httpx.ConnectError("refused")))
        assert (failure.category, failure.not_sent) == ("transient", True)
        assert failure.reason == (
            f"{Wrapper.__module__}.Wrapper is not known by itself; it was caused by httpx.ConnectError: "
            "no connection could be made; a retry may get through"
        )
        assert failure.message == "x"

    def test_a_permanent_cause_is_permanent(self) -> None:
        assert failure_of(raised_from(Wrapper(), ValueError("x"))).category == "permanent"
        assert failure_of(raised_from(RuntimeError(), KeyError("x"))).category == "permanent"

    def test_status_and_retry_after_of_the_cause_count(self) -> None:
        failure = failure_of(raised_from(Wrapper(), answered(429, retry_after="7")))
        assert (failure.category, failure.status, failure.retry_after) == ("transient", 429, 7.0)
        assert failure.not_sent
        busy = type("Busy", (ConnectionError,), {"retry_after": 3})()
        assert failure_of(raised_from(Wrapper(), busy)).retry_after == 3.0

    def test_the_errors_own_retry_after_goes_first(self) -> None:
        error: Any = raised_from(Wrapper(), answered(429, retry_after="7"))
        error.retry_after = 5
        assert failure_of(error).retry_after == 5.0

    def test_declared_statuses_and_rules_hold_for_causes(self) -> None:
        assert failure_of(raised_from(Wrapper(), answered(503)), Classifier(statuses={503: "permanent"})).category == (
            "permanent"
        )
        assert failure_of(raised_from(Wrapper(), Odd()), Classifier([(Odd, "transient")])).category == "transient"
        both = Classifier([(Odd, "transient"), (Wrapper, "permanent")])
        assert failure_of(raised_from(Wrapper(), Odd()), both).category == "permanent"

    def test_a_cause_of_a_cause(self) -> None:
        failure = failure_of(raised_from(Wrapper(), RuntimeError(), Odd(), TimeoutError()))
        assert failure.category == "transient"
        assert "caused by TimeoutError" in failure.reason

    def test_the_nearest_known_cause_decides(self) -> None:
        assert failure_of(raised_from(Wrapper(), ValueError(), TimeoutError())).category == "permanent"

    def test_what_is_known_by_itself_is_not_asked_for_its_cause(self) -> None:
        assert failure_of(raised_from(ValueError(), TimeoutError())).category == "permanent"
        assert failure_of(raised_from(TimeoutError(), ValueError())).category == "transient"

    def test_what_is_known_to_be_ambiguous_stays_unknown(self) -> None:
        unclear = type("RpcError", (Exception,), {"__module__": "grpc", "code": type("C", (), {"name": "UNKNOWN"})})()
        assert failure_of(raised_from(unclear, TimeoutError())).category == "unknown"
        assert failure_of(raised_from(Wrapper(), unclear, TimeoutError())).category == "unknown"

    def test_signals_and_groups_as_causes(self) -> None:
        assert failure_of(raised_from(Wrapper(), Permanent())).category == "permanent"
        assert failure_of(raised_from(Wrapper(), RetryAfter(9))).retry_after == 9.0
        both = ExceptionGroup("both", [TimeoutError(), ConnectionResetError()])
        assert failure_of(raised_from(Wrapper(), both)).category == "transient"
        assert failure_of(raised_from(Wrapper(), ExceptionGroup("x", [TimeoutError(), Odd()]))).category == "unknown"

    @pytest.mark.parametrize("cause", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit()])
    def test_the_end_of_a_task_is_no_reason_to_retry(self, cause: BaseException) -> None:
        assert failure_of(raised_from(Wrapper(), cause, TimeoutError())).category == "unknown"

    def test_redrives_own_errors_mean_what_they_are(self) -> None:
        assert failure_of(raised_from(LeaseLostError("x"), TimeoutError())).category == "unknown"


@pytest.mark.promise("L2")
class TestImplicitContexts:
    def test_a_library_that_wraps_without_naming_the_cause(self) -> None:
        failure = failure_of(raised_while_handling(InstalledError(), httpx.ReadTimeout("slow")))
        assert failure.category == "transient"
        assert "it was caused by httpx.ReadTimeout" in failure.reason
        assert failure_of(raised_while_handling(InstalledError(), answered(404))).category == "permanent"

    @pytest.mark.parametrize("kind", [RuntimeError, Exception, OSError, Wrapper, EOFError, MemoryError])
    def test_pythons_and_the_users_own_errors_stay_unknown(self, kind: type[Exception]) -> None:
        assert failure_of(raised_while_handling(kind("x"), TimeoutError())).category == "unknown"

    @pytest.mark.parametrize("kind", [KeyError, TypeError, AttributeError, ValueError, NameError, AssertionError])
    def test_a_mistake_in_a_handler_never_becomes_transient(self, kind: type[Exception]) -> None:
        mistake = raised_while_handling(kind("x"), httpx.ConnectError("x"))
        assert failure_of(mistake).category == "permanent"
        mistake = raised_while_handling(kind("x"), httpx.ConnectError("x"))
        assert failure_of(raised_while_handling(InstalledError(), mistake)).category == "unknown"

    def test_a_cache_miss_that_was_handled_says_nothing(self) -> None:
        assert failure_of(raised_while_handling(InstalledError(), KeyError("x"))).category == "unknown"

    @pytest.mark.parametrize("kind", [InstalledError, Wrapper])
    def test_from_none_hides_the_context(self, kind: Callable[[], Exception]) -> None:
        assert failure_of(raised_while_handling(kind(), TimeoutError(), hidden=True)).category == "unknown"


class TestMisbehaviour:
    def test_errors_that_cause_each_other(self) -> None:
        first, second = Odd("1"), Odd("2")
        first.__cause__, second.__cause__ = second, first
        assert failure_of(first).category == "unknown"
        first.__cause__ = first
        assert failure_of(first).category == "unknown"

    def test_a_group_that_leads_back(self) -> None:
        first, second = Odd("1"), Odd("2")
        first.__cause__, second.__cause__ = ExceptionGroup("g", [second]), first
        assert failure_of(first).category == "unknown"

    def test_it_is_not_followed_without_end(self) -> None:
        def nested(times: int) -> Exception:
            return raised_from(Odd(), *(Odd() for _ in range(times)), TimeoutError())

        assert failure_of(nested(5)).category == "transient"
        assert failure_of(nested(50)).category == "unknown"
