"""Bracket text: the document's examples, several brackets, timeouts, and hostile input."""

from contextlib import suppress
from typing import Any, SupportsIndex

import pytest

from redrive.errors import NotationError
from redrive.failures.failure import Failure
from redrive.failures.matching import lineage
from redrive.notation import read_policy, write_policy
from redrive.notation.formats.brackets import read_text
from redrive.policies.decide import decide
from redrive.policies.decision import GiveUp, RetryAt
from redrive.policies.history import History
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure

EXAMPLES = {
    "# Catch all exceptions, with exponential backoff\nresult = @risky_action() [retry: 3, backoff: 60]": (
        "[retry: 3, backoff: 1m]"
    ),
    "result = @network_call() [NetworkError -> retry: 5, backoff: 2m]": "[NetworkError -> retry: 5, backoff: 2m]",
    "result = @api_call() [(ValueError, KeyError) -> retry: 3, backoff: 30s]": (
        "[(ValueError, KeyError) -> retry: 3, backoff: 30s]"
    ),
    "result = @api_call() [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]": (
        "[RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]"
    ),
    "result = @slow_action() [retry: 3, backoff: 60] [timeout: 2m]  # timeout apart": (
        "[retry: 3, backoff: 1m] [timeout: 2m]"
    ),
}


class NetworkError(Exception):
    pass


class DnsError(NetworkError):
    pass


def failed(kind: type[Exception]) -> Failure:
    return Failure(category="unknown", reason="a test says so", type=kind.__name__, lineage=lineage(kind))


def play(policy: Policy, *failures: Failure) -> list[str]:
    """Who answers each failure, with the wait; or why not."""
    history = History(0.0)
    said: list[str] = []
    for failure in failures:
        answer = decide(policy, history, failure, 0.0, lambda: 0.0)
        if isinstance(answer, GiveUp):
            return [*said, f"{answer.kind} by {answer.because.rule}"]
        said.append(f"{answer.because.rule} {answer.because.wait:g}")
        history = history.after(answer)
    return said


@pytest.mark.promise("R1")
@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_parse_and_print_back(text: str) -> None:
    reading = read_policy(text)
    assert reading.notation == "brackets"
    printed = write_policy(reading.policy, "brackets")
    assert printed == EXAMPLES[text] + "\n"
    assert write_policy(read_policy(printed).policy, "brackets") == printed


@pytest.mark.promise("R1", "R3")
def test_a_bracket_without_names_answers_everything_with_exponential_waits() -> None:
    policy = read_policy("[retry: 3, backoff: 60]").policy
    for failure in ("transient", "unknown", "ValueError"):
        assert [row.high for row in preview(policy, read_failure(failure)).rows] == [None, 60.0, 120.0, 240.0]


@pytest.mark.promise("R3")
def test_the_first_bracket_that_matches_answers_with_a_counter_of_its_own() -> None:
    policy = read_policy("[NetworkError -> retry: 2, backoff: 30s] [retry: 1, backoff: 1s]").policy
    network, other = failed(NetworkError), failed(KeyError)
    assert play(policy, network, other, network, network) == [
        "rules[0] 30",
        "rules[1] 1",
        "rules[0] 60",
        "exhausted by rules[0]",
    ]
    assert play(policy, other, other) == ["rules[1] 1", "exhausted by rules[1]"]


@pytest.mark.promise("R3")
def test_base_classes_match_too() -> None:
    policy = read_policy("[NetworkError -> retry: 2, backoff: 30s]").policy
    assert play(policy, failed(DnsError)) == ["rules[0] 30"]
    assert play(policy, failed(KeyError)) == ["unknown by none"]


@pytest.mark.promise("R4")
@pytest.mark.parametrize(("text", "seconds"), [("2m", 120.0), ("1.5", 1.5), ("90", 90.0), ("500ms", 0.5), ("1h", 3600)])
def test_timeout_is_a_bracket_of_its_own_and_may_be_a_fraction(text: str, seconds: float) -> None:
    policy = read_policy(f"[retry: 3, backoff: 1] [timeout: {text}]").policy
    assert policy.attempt_timeout == seconds
    assert preview(policy).rows[0].timeout == seconds


def test_arguments_strings_and_comments_of_the_action_are_passed_over() -> None:
    text = """
    # [retry: 99] is only a comment
    reply = @send(to="x]y", tags=["a", (1, 2)], text='it\\'s') [  # one bracket
        (a.B, status:5xx, status:500-504)   # over several lines
        -> retry: -1, backoff: 1h30m
    ]
    """
    (rule,) = read_policy(text).policy.rules
    assert (rule.retries, rule.match.names, rule.match.statuses) == (None, ("a.B",), ((500, 599), (500, 504)))
    assert rule.backoff is not None
    assert rule.backoff.base == 5400.0


def test_what_goes_beyond_the_document_has_words_too() -> None:
    policy = read_policy(
        "[A -> retry: 2, backoff: 1s, linear, max_backoff: 5s, jitter: equal]"
        "[B -> backoff: 1s, factor: 3, jitter: additive 250ms]"
        "[attempts: 7, deadline: 1h, floor: 0s, never_on: (C, D), idempotent: false]"
        "[timeout: 3s] [timeout_growth: 2, timeout_retries: 4, max_retry_after: none]"
    ).policy
    first, second = policy.rules
    assert first.backoff is not None
    assert second.backoff is not None
    assert second.jitter is not None
    assert (first.backoff.kind, first.max_wait, first.retries) == ("linear", 5.0, 2)
    assert (second.backoff.factor, second.jitter.amount, second.retries) == (3.0, 0.25, None)
    assert (policy.attempts, policy.deadline, policy.floor, policy.idempotent) == (7, 3600.0, 0.0, False)
    assert (policy.timeout_growth, policy.timeout_retries, policy.max_retry_after) == (2.0, 4, None)
    assert policy.never_on.names == ("C", "D")


@pytest.mark.promise("P9")
def test_a_missing_backoff_is_lifted_to_the_floor_and_said() -> None:
    reading = read_policy("[retry: 2]")
    assert [one.id for one in reading.warnings] == ["zero-wait"]
    assert [row.low for row in preview(reading.policy).rows] == [None, 0.1, 0.1]


def test_a_timeout_that_no_bracket_answers_is_said() -> None:
    reading = read_policy("[NetworkError -> retry: 2, backoff: 1s]\n[timeout: 2m]")
    assert [(one.id, one.line) for one in reading.warnings] == [("timeout-not-retried", 2)]
    answered = "[(NetworkError, TimeoutError) -> retry: 2, backoff: 1s] [timeout: 2m]"
    assert read_policy(answered).warnings == ()
    (alone,) = read_policy("[timeout: 2m]").warnings
    assert alone.id == "timeout-not-retried"
    assert "only in a script do such brackets modify the action's own policy" in alone.text


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[retry: 3", 1, 10),
        ("[retry: 3,\n backoff 60s]", 2, 2),
        ("[retry: 3]\n  oops", 2, 3),
        ("[A ->\n retry: x]", 2, 2),
        ("x = [retry: 3]", 1, 5),
        ("@f(1 [retry: 3]", 1, 16),
        ("[retry: 3] @g() [retry: 4]", 1, 12),
    ],
)
def test_errors_have_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(NotationError) as refused:
        read_text(text)
    assert (refused.value.line, refused.value.column) == (line, column)


class CountingText(str):
    """Text that counts how often someone looks into it."""

    looks = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: "[(" + "A, " * n,
        lambda n: "@f(" + "(" * n,
        lambda n: "@f(" + "'a' " * n,
        lambda n: "[A" + "." * n,
        lambda n: "[retry: " + "9" * n + "]",
        lambda n: "[" + "A " * n + "-> retry: 3]",
        lambda n: "[retry: 3" + ", x: 1" * n + "]",
        lambda n: "@f(" + "<locals>" * n,
        lambda n: "@f(" + "-" * n,
        lambda n: "[retry: 3] " * min(n, 90) + " " * n,
    ],
)
def test_twice_the_input_is_at_most_twice_the_work(hostile: Any) -> None:
    def work(size: int) -> int:
        text = CountingText(hostile(size))
        with suppress(NotationError):
            read_text(text)
        return text.looks

    assert work(10_000) <= 2.2 * work(5_000)


def test_a_retry_decision_names_the_bracket_that_granted_it() -> None:
    policy = read_policy("[NetworkError -> retry: 2, backoff: 30s]").policy
    answer = decide(policy, History(0.0), failed(DnsError), 0.0, lambda: 0.0)
    assert isinstance(answer, RetryAt)
    assert (answer.because.rule, answer.because.matched) == ("rules[0]", "NetworkError")
