"""From exceptions, answers and results to failures."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import AttemptTimeoutError, DeadlineExceededError, Permanent, RetryAfter
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Failure

from .classifying import NOW, Odd, answered, failure_of


class TestExceptions:
    @pytest.mark.promise("P1")
    def test_a_transient_failure(self) -> None:
        failure = failure_of(ConnectionResetError(104, "Connection reset by peer"))
        assert failure.category == "transient"
        assert failure.kind == "exception"
        assert failure.type == "ConnectionResetError"
        assert failure.message == "[Errno 104] Connection reset by peer"
        assert "a retry may get through" in failure.reason
        assert not failure.not_sent
        assert not failure.marked_permanent
        assert failure.status is None
        assert failure.retry_after is None
        assert failure.retry_after_note == ""

    @pytest.mark.promise("P2")
    def test_a_permanent_failure(self) -> None:
        failure = failure_of(KeyError("customer"))
        assert failure.category == "permanent"
        assert "missing data" in failure.reason
        assert not failure.marked_permanent

    @pytest.mark.promise("P4")
    def test_an_unknown_failure_says_that_it_is_and_how_to_declare_it(self) -> None:
        failure = failure_of(Odd("x"))
        assert failure.category == "unknown"
        assert f"{Odd.__module__}.Odd is not a known error" in failure.reason
        assert "retry_on=(TRANSIENT, Odd)" in failure.reason
        assert '(Odd, "transient")' in failure.reason

    def test_the_type_is_qualified_but_for_builtins(self) -> None:
        assert failure_of(Odd()).type == f"{Odd.__module__}.Odd"
        assert failure_of(httpx.ConnectError("x")).type == "httpx.ConnectError"
        assert failure_of(ValueError()).type == "ValueError"

    @pytest.mark.promise("P10")
    def test_what_was_not_sent(self) -> None:
        assert failure_of(ConnectionRefusedError()).not_sent
        assert failure_of(httpx.ConnectTimeout("x")).not_sent
        assert not failure_of(httpx.ReadTimeout("x")).not_sent

    @pytest.mark.promise("P11")
    def test_the_message_has_no_secrets(self) -> None:
        failure = failure_of(
            Odd("cannot reach postgresql://bob:hunter2@db/app?token=sesame\nAuthorization: Bearer abc")
        )
        for secret in ("hunter2", "sesame", "abc", "\n"):
            assert secret not in failure.message
        assert "postgresql://***@db/app" in failure.message

    def test_the_message_is_bounded(self) -> None:
        assert len(failure_of(Odd("word " * 100_000)).message) <= 500


class TestSignals:
    def test_permanent_is_marked(self) -> None:
        failure = failure_of(Permanent("no such account"))
        assert failure.category == "permanent"
        assert failure.marked_permanent
        assert failure.message == "no such account"

    def test_no_rule_overrides_permanent(self) -> None:
        lenient = Classifier([("any", "transient")])
        assert failure_of(Permanent(), lenient).category == "permanent"
        assert failure_of(Permanent(), lenient).marked_permanent

    @pytest.mark.parametrize("delay", [30, 30.0, "30", "30s", "30000ms", timedelta(seconds=30)])
    def test_retry_after_asks_for_a_wait(self, delay: Any) -> None:
        failure = failure_of(RetryAfter(delay, "warming up"))
        assert failure.category == "transient"
        assert failure.retry_after == 30.0
        assert failure.message == "warming up"

    @pytest.mark.parametrize("delay", [-1, "soon", None, float("nan")])
    def test_retry_after_refuses_what_is_no_duration(self, delay: Any) -> None:
        with pytest.raises(ValueError, match="is not a duration"):
            RetryAfter(delay)

    def test_subclasses_of_signals_are_signals(self) -> None:
        class Gone(Permanent, ConnectionError):
            pass

        assert failure_of(Gone()).marked_permanent


class TestTimeouts:
    @pytest.mark.promise("S1", "P1")
    @pytest.mark.parametrize("error", [AttemptTimeoutError(5), DeadlineExceededError(60)])
    def test_redrives_own_timeouts_are_timeouts(self, error: Exception) -> None:
        failure = failure_of(error)
        assert (failure.kind, failure.category) == ("timeout", "transient")

    @pytest.mark.parametrize("error", [TimeoutError(), asyncio.CancelledError(), Odd(), ValueError()])
    def test_whatever_a_cut_attempt_raised_is_a_timeout(self, error: BaseException) -> None:
        failure = failure_of(error, timed_out=True)
        assert (failure.kind, failure.category) == ("timeout", "transient")
        assert "timeout" in failure.reason
        assert not failure.marked_permanent

    def test_a_timeout_of_the_work_itself_is_an_exception(self) -> None:
        assert failure_of(TimeoutError()).kind == "exception"
        assert failure_of(httpx.ReadTimeout("x")).kind == "exception"

    def test_a_timeout_was_perhaps_sent(self) -> None:
        assert not failure_of(ConnectionRefusedError(), timed_out=True).not_sent

    def test_permanent_is_permanent_even_when_it_came_late(self) -> None:
        assert failure_of(Permanent(), timed_out=True).marked_permanent


class TestWhatIsNeverRetried:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError(), GeneratorExit()])
    def test_what_ends_the_program_or_the_task(self, error: BaseException) -> None:
        lenient = Classifier([("any", "transient")])
        for classifier in (DEFAULT_CLASSIFIER, lenient):
            failure = failure_of(error, classifier)
            assert failure.category == "permanent"
            assert failure.marked_permanent
            assert "never retried" in failure.reason


class TestStatuses:
    @pytest.mark.promise("P7")
    def test_an_answer_with_its_status_and_retry_after(self) -> None:
        failure = failure_of(answered(503, Retry_After="30"))
        assert (failure.category, failure.status, failure.retry_after) == ("transient", 503, 30.0)
        assert failure.reason.startswith("503 Service Unavailable: ")

    @pytest.mark.promise("P7")
    def test_a_date_counts_from_the_given_time(self) -> None:
        error = answered(429, Retry_After="Fri, 15 Jan 2027 08:00:10 GMT")
        assert failure_of(error).retry_after == 10.0
        assert failure_of(error).not_sent

    def test_an_odd_retry_after_is_noted(self) -> None:
        past = failure_of(answered(503, Retry_After="Fri, 15 Jan 2027 07:00:00 GMT"))
        assert past.retry_after == 0.0
        assert "past" in past.retry_after_note
        garbage = failure_of(answered(503, Retry_After="soon"))
        assert garbage.retry_after is None
        assert "'soon'" in garbage.retry_after_note

    @pytest.mark.promise("A6")
    def test_statuses_can_be_overruled(self) -> None:
        classifier = Classifier(statuses={404: "transient", 503: "permanent"})
        missing = failure_of(answered(404, Retry_After="5"), classifier)
        assert (missing.category, missing.retry_after) == ("transient", 5.0)
        assert "declared transient" in missing.reason
        assert failure_of(answered(503), classifier).category == "permanent"
        assert failure_of(answered(500), classifier).category == "transient"
        assert classifier.failure_of_status(404, None, NOW).category == "transient"

    @pytest.mark.promise("P3")
    def test_a_conflict_can_be_declared_a_lock(self) -> None:
        locking = Classifier(conflict_is_lock=True)
        assert failure_of(answered(409)).category == "permanent"
        for failure in (failure_of(answered(409), locking), locking.failure_of_status(409, {}, NOW)):
            assert failure.category == "transient"
            assert "re-read" in failure.reason
        assert failure_of(answered(404), locking).category == "permanent"


class TestAnswersAndResults:
    @pytest.mark.promise("S1", "P7")
    def test_an_answer_of_an_adapter(self) -> None:
        failure = DEFAULT_CLASSIFIER.failure_of_status(503, {"retry-after": "30"}, NOW)
        assert failure.kind == "result"
        assert failure.type == "HTTP 503"
        assert failure.message == "503 Service Unavailable"
        assert (failure.category, failure.status, failure.retry_after) == ("transient", 503, 30.0)
        assert failure.error is None

    @pytest.mark.promise("P10")
    def test_an_answer_before_processing(self) -> None:
        assert DEFAULT_CLASSIFIER.failure_of_status(429, None, NOW).not_sent
        assert not DEFAULT_CLASSIFIER.failure_of_status(503, None, NOW).not_sent

    def test_a_refused_result(self) -> None:
        failure = DEFAULT_CLASSIFIER.failure_of_result("status is 'pending', token=sesame")
        assert (failure.category, failure.kind) == ("transient", "result")
        assert "pending" in failure.message
        assert "sesame" not in failure.reason + failure.message


class TestRetryAfterAttribute:
    @pytest.mark.promise("P7")
    @pytest.mark.parametrize(("asked", "seconds"), [(3, 3.0), (1.5, 1.5), (timedelta(minutes=1), 60.0), ("7", 7.0)])
    def test_a_number_that_the_exception_carries(self, asked: object, seconds: float) -> None:
        error = type("RateLimited", (ConnectionError,), {"retry_after": asked})()
        assert failure_of(error).retry_after == seconds

    @pytest.mark.parametrize("asked", [-1, float("nan"), float("inf"), object(), [1], True])
    def test_what_is_no_wait_is_noted(self, asked: object) -> None:
        failure = failure_of(type("RateLimited", (ConnectionError,), {"retry_after": asked})())
        assert failure.retry_after is None
        assert "ignored" in failure.retry_after_note

    @pytest.mark.parametrize("asked", [None, lambda self: 5])
    def test_nothing_and_methods_say_nothing(self, asked: object) -> None:
        failure = failure_of(type("RateLimited", (ConnectionError,), {"retry_after": asked})())
        assert (failure.retry_after, failure.retry_after_note) == (None, "")

    def test_the_header_comes_first(self) -> None:
        error: Any = answered(503, Retry_After="30")
        error.retry_after = 5
        assert failure_of(error).retry_after == 30.0


class TestMisbehaviour:
    def test_attributes_that_raise(self) -> None:
        class Hostile(Exception):
            def __getattribute__(self, name: str) -> Any:
                if name in ("retry_after", "response", "status_code", "status", "headers", "sqlstate", "http_status"):
                    raise RuntimeError(f"no {name}")
                return super().__getattribute__(name)

        failure = failure_of(Hostile("x"))
        assert (failure.category, failure.message, failure.retry_after) == ("unknown", "x", None)

    @pytest.mark.parametrize("said", [None, 5])
    def test_text_that_cannot_be_read(self, said: Any) -> None:
        def text(self: object) -> Any:
            if said is None:
                raise RuntimeError("no text")
            return said

        failure = failure_of(type("Mute", (ConnectionError,), {"__str__": text})())
        assert failure.category == "transient"
        assert failure.message == "<Mute whose text cannot be read>"

    @given(st.text(), st.one_of(st.none(), st.integers(), st.floats(), st.text()))
    def test_any_text_and_any_retry_after(self, text: str, asked: Any) -> None:
        failure = failure_of(type("Any", (ConnectionError,), {"retry_after": asked})(text))
        assert failure.category == "transient"
        assert failure.message.isprintable()
        assert failure.retry_after is None or failure.retry_after >= 0


def test_a_failure_can_be_stored_without_its_error() -> None:
    failure = msgspec.structs.replace(failure_of(answered(503, Retry_After="3")), error=None)
    stored = msgspec.json.decode(msgspec.json.encode(failure))
    assert stored["category"] == "transient"
    assert stored["lineage"][0] == "httpx.HTTPStatusError"
    assert repr(failure) == f"Failure(httpx.HTTPStatusError, transient: {failure.reason})"


def test_threads_may_share_a_classifier() -> None:
    classifier = Classifier([(Odd, "transient")])
    wrong: list[Failure] = []

    def classify() -> None:
        for _ in range(200):
            kind = type("Fresh", (Odd,), {})
            failure = classifier.failure_of(kind("x"), NOW)
            if failure.category != "transient":
                wrong.append(failure)

    threads = [threading.Thread(target=classify) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
