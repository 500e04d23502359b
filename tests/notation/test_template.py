"""The template's retry: mapping, and the six cases its document names for attempts and retryable."""

import pytest

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.policy import Policy
from redrive.policies.preview import preview, read_failure


def policy_of(text: str) -> Policy:
    reading = read_policy(text, "template")
    assert reading.notation == "template"
    return reading.policy


@pytest.mark.promise("T3")
def test_every_key_takes_effect() -> None:
    policy = policy_of(
        "retry:\n  retryable: true\n  max_attempts: 6\n  backoff: linear\n"
        "  backoff_base_ms: 200\n  max_backoff_ms: 700\n"
    )
    shown = preview(policy)
    assert [row.high for row in shown.rows[1:]] == [0.2, 0.4, pytest.approx(0.6), 0.7, 0.7]
    assert shown.attempts == 6


@pytest.mark.promise("T3")
def test_defaults_are_retryable_and_three_attempts() -> None:
    policy = policy_of("retry: {backoff: exponential}")
    assert policy.attempts == 3
    assert [row.high for row in preview(policy).rows] == [None, 1.0, 2.0]
    assert policy.max_wait == 30.0


@pytest.mark.promise("T1")
@pytest.mark.parametrize("max_attempts", [1, 2, 3, 10])
def test_max_attempts_is_total_attempts(max_attempts: int) -> None:
    assert preview(policy_of(f"max_attempts: {max_attempts}")).attempts == max_attempts


@pytest.mark.promise("T2", "T7")
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_retryable_false_allows_the_first_attempt_and_no_other(max_attempts: int) -> None:
    policy = policy_of(f"retryable: false\nmax_attempts: {max_attempts}")
    shown = preview(policy)
    assert (shown.attempts, shown.ends) == (1, "exhausted")


@pytest.mark.promise("T7")
def test_retryable_false_beside_more_attempts_is_a_named_warning() -> None:
    reading = read_policy("retry:\n  retryable: false\n  max_attempts: 3\n")
    assert [(one.id, one.key, one.line) for one in reading.warnings] == [("retryable-false", "retry.max_attempts", 3)]
    assert read_policy("retry:\n  retryable: false\n  max_attempts: 1\n").warnings == ()


@pytest.mark.promise("T6")
def test_zero_attempts_are_refused_with_what_to_write_instead() -> None:
    with pytest.raises(NotationError, match=r"t.yaml:2: key 'retry.max_attempts', value 0: .*write 1") as refused:
        read_policy("retry:\n  max_attempts: 0\n", source="t.yaml")
    assert refused.value.rule == "RD006"


@pytest.mark.promise("T9")
def test_the_old_name_is_refused_with_the_new_one() -> None:
    with pytest.raises(NotationError, match=r"key 'retry.retry_limit', value 3: .*write 'max_attempts'") as refused:
        read_policy("retry:\n  retry_limit: 3\n")
    assert refused.value.rule == "RD008"


@pytest.mark.parametrize("word", ["constant", "fixed"])
def test_fixed_is_another_word_for_constant(word: str) -> None:
    policy = policy_of(f"{{max_attempts: 4, backoff: {word}, backoff_base_ms: 50}}")
    assert [row.high for row in preview(policy).rows[1:]] == [0.05] * 3


@pytest.mark.promise("P9")
def test_no_backoff_is_lifted_to_the_floor_and_said() -> None:
    reading = read_policy("{max_attempts: 3, backoff: none}", "template")
    assert [one.id for one in reading.warnings] == ["zero-wait"]
    assert [row.low for row in preview(reading.policy).rows[1:]] == [0.1, 0.1]


@pytest.mark.parametrize(("failure", "attempts"), [("transient", 3), ("unknown", 3), ("permanent", 1)])
def test_everything_is_retried_but_what_is_known_to_be_permanent(failure: str, attempts: int) -> None:
    assert preview(policy_of("max_attempts: 3"), read_failure(failure)).attempts == attempts


def test_the_only_policy_of_a_larger_document_is_found_in_it() -> None:
    reading = read_policy("name: charge\nsteps:\n  - name: pay\n    retry:\n      max_attempts: 4\n")
    assert (reading.notation, reading.policy.attempts) == ("template", 4)
    assert reading.written["attempts"] == "steps[0].retry.max_attempts"
    assert reading.line_of("attempts") == 5


def test_several_policies_in_a_document_are_not_chosen_from() -> None:
    with pytest.raises(NotationError, match=r"more than one policy; .*a.retry \(line 1\), b.retry \(line 2\)"):
        read_policy("a: {retry: {max_attempts: 4}}\nb: {retry: {max_attempts: 5}}\n")
