"""What users declare comes before what is known."""

from typing import Any

import pytest

from redrive.errors import AttemptTimeoutError
from redrive.failures.classifier import Classifier
from redrive.failures.failure import Category, Verdict

from .classifying import NOW, Odd, answered, failure_of


class TestRules:
    def test_the_first_rule_that_matches_answers_and_says_so(self) -> None:
        classifier = Classifier([(ValueError, "unknown"), (Odd, "transient"), ("Exception", "permanent")])
        failure = failure_of(Odd(), classifier)
        assert failure.category == "transient"
        assert failure.reason == "rules[1] of the classifier declares Odd transient"
        assert failure_of(RuntimeError(), classifier).reason.startswith("rules[2]")

    @pytest.mark.parametrize("what", [Odd, "Odd", f"{Odd.__module__}.Odd", (KeyError, Odd), "unknown", "any"])
    def test_a_rule_takes_whatever_names_failures(self, what: Any) -> None:
        assert failure_of(Odd(), Classifier([(what, "transient")])).category == "transient"
        assert failure_of(Odd(), Classifier([(what, "permanent")])).category == "permanent"

    def test_rules_come_before_what_is_known(self) -> None:
        assert failure_of(ConnectionError(), Classifier([(ConnectionError, "permanent")])).category == "permanent"
        assert failure_of(ValueError(), Classifier([(ValueError, "transient")])).category == "transient"

    def test_a_rule_by_status_applies_to_exceptions_and_answers(self) -> None:
        classifier = Classifier([("status:4xx", "transient")])
        assert failure_of(answered(404), classifier).category == "transient"
        assert classifier.failure_of_status(404, None, NOW).category == "transient"
        assert classifier.failure_of_status(404, None, NOW).reason.startswith("rules[0]")
        assert failure_of(KeyError(), classifier).category == "permanent"

    def test_a_rule_keeps_the_facts(self) -> None:
        failure = failure_of(answered(429, Retry_After="9"), Classifier([(429, "permanent")]))
        assert (failure.status, failure.retry_after, failure.not_sent) == (429, 9.0, True)

    def test_a_function_answers_about_each_error(self) -> None:
        def by_text(error: BaseException) -> Category | None:
            return "transient" if "busy" in str(error) else None

        classifier = Classifier([(Odd, by_text), (Odd, "permanent")])
        assert failure_of(Odd("busy"), classifier).reason.startswith("rules[0]")
        assert failure_of(Odd("busy"), classifier).category == "transient"
        assert failure_of(Odd("gone"), classifier).category == "permanent"

    def test_a_function_may_give_a_whole_verdict(self) -> None:
        verdict = Verdict(category="transient", reason="the queue is full", status=599, retry_after="11", not_sent=True)
        failure = failure_of(Odd(), Classifier([(Odd, lambda error: verdict)]))
        assert failure.reason == "rules[0] (Odd): the queue is full"
        assert (failure.status, failure.retry_after, failure.not_sent) == (599, 11.0, True)

    def test_a_function_is_not_asked_about_answers(self) -> None:
        classifier = Classifier([("any", lambda error: "permanent")])
        assert classifier.failure_of_status(503, None, NOW).category == "transient"

    def test_a_rule_that_raises_is_passed_over_and_reported(self) -> None:
        def broken(error: BaseException) -> Category:
            raise ZeroDivisionError

        asked: list[Any] = [(Odd, broken), (Odd, "transient")]
        matching: list[Any] = [(broken, "permanent"), (Odd, "transient")]
        for rules in (asked, matching):
            failure = failure_of(Odd(), Classifier(rules))
            assert failure.category == "transient"
            assert "rules[0] of the classifier raised ZeroDivisionError" in failure.reason
        alone = failure_of(Odd(), Classifier([(Odd, broken)]))
        assert alone.category == "unknown"
        assert "raised ZeroDivisionError" in alone.reason

    def test_a_rule_that_answers_nonsense_is_passed_over_and_reported(self) -> None:
        nonsense: Any = lambda error: "perhaps"  # noqa: E731 - it is the answer's type that is wrong
        failure = failure_of(Odd(), Classifier([(Odd, nonsense)]))
        assert failure.category == "unknown"
        assert "'perhaps'" in failure.reason

    def test_a_rule_may_overrule_a_timeout(self) -> None:
        failure = failure_of(AttemptTimeoutError(5), Classifier([(AttemptTimeoutError, "permanent")]))
        assert (failure.kind, failure.category) == ("timeout", "permanent")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"rules": [ConnectionError]}, "is not a pair"),
            ({"rules": [(ConnectionError,)]}, "is not a pair"),
            ({"rules": [(ConnectionError, "sometimes")]}, "'sometimes' is not a category"),
            ({"rules": [(ConnectionError, None)]}, "None is not a category"),
            ({"rules": [(KeyboardInterrupt, "transient")]}, "never retried"),
            ({"rules": [("not a name", "transient")]}, "does not name a failure"),
            ({"statuses": {404: "sometimes"}}, "'sometimes' is not a category"),
            ({"statuses": {99: "transient"}}, "99 is not an HTTP status"),
            ({"statuses": {"404": "transient"}}, "'404' is not an HTTP status"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_at_once(self, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises((TypeError, ValueError), match=said):
            Classifier(**arguments)

    def test_it_cannot_be_changed(self) -> None:
        rules: list[Any] = [(Odd, "transient")]
        statuses: dict[int, Category] = {404: "transient"}
        classifier = Classifier(rules, statuses)
        rules.clear()
        statuses[404] = "permanent"
        assert failure_of(Odd(), classifier).category == "transient"
        assert failure_of(answered(404), classifier).category == "transient"
        with pytest.raises(AttributeError, match="is immutable"):
            classifier._rules = ()
        with pytest.raises(AttributeError, match="is immutable"):
            classifier.anything = 1
        assert repr(classifier).startswith("Classifier(1 rules")
