"""A Step Functions Retry array, read: each retrier a rule with its own counter."""

import pytest

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.preview import preview, preview_all, read_failure

RETRY = """
{
  "Retry": [
    {"ErrorEquals": ["ErrorA", "ErrorB"], "IntervalSeconds": 1, "BackoffRate": 2.0, "MaxAttempts": 2},
    {"ErrorEquals": ["ErrorC"], "IntervalSeconds": 5, "MaxDelaySeconds": 7, "JitterStrategy": "FULL"},
    {"ErrorEquals": ["ErrorD"], "MaxAttempts": 0},
    {"ErrorEquals": ["States.ALL"], "Comment": "the rest"}
  ]
}
"""


def test_retriers_are_asked_in_order() -> None:
    reading = read_policy(RETRY)
    assert reading.notation == "step_functions"
    shown = preview_all(reading.policy)
    assert [one.answered_by for one in shown] == ["rules[0]", "rules[1]", "rules[2]", "rules[3]"]
    assert [one.attempts for one in shown] == [3, 4, 1, 4]
    assert [(row.low, row.high) for row in shown[1].rows[1:]] == [(0.0, 5.0), (0.0, 7.0), (0.0, 7.0)]
    assert [row.high for row in shown[3].rows[1:]] == [1.0, 2.0, 4.0]
    assert reading.written["rules[1]"] == "Retry[1]"
    assert reading.line_of("rules[1]") == 5


def test_what_no_retrier_names_is_not_retried() -> None:
    policy = read_policy('[{"ErrorEquals": ["ErrorA"]}]').policy
    assert preview(policy, read_failure("ErrorB")).attempts == 1


@pytest.mark.parametrize(
    ("name", "warning", "failure"),
    [
        ("States.TaskFailed", "task-failed", "ValueError"),
        ("States.Timeout", "timeout-name", "timeout"),
        ("States.HeartbeatTimeout", "timeout-name", "TimeoutError"),
        ("States.Permissions", "service-error", "States.Permissions"),
        ("Lambda.TooManyRequestsException", "dotted-name", "Lambda.TooManyRequestsException"),
    ],
)
def test_names_whose_meaning_shifts_are_read_with_a_warning(name: str, warning: str, failure: str) -> None:
    reading = read_policy([{"ErrorEquals": [name]}])
    assert [one.id for one in reading.warnings] == [warning]
    assert preview(reading.policy, read_failure(failure)).attempts == 4


@pytest.mark.parametrize(
    "retriers",
    [
        '[{"ErrorEquals": ["States.ALL", "ErrorA"]}]',
        '[{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["ErrorA"]}]',
    ],
)
def test_all_stands_alone_and_last(retriers: str) -> None:
    with pytest.raises(NotationError, match=r"ErrorEquals.*States.ALL alone, in the last retrier"):
        read_policy(retriers)
