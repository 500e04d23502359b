"""What may be written for `retry=`: above all, what a list of policies means for the whole."""

from typing import Any

import pytest

from redrive import Policy, RetryAfter, RetryPolicy, Rule, Workflow, action, constant, exponential, workflow
from redrive.errors import PolicyError
from redrive.failures import NOTHING, as_match
from redrive.flows.retry_policy import as_policy
from redrive.policies import Jitter
from redrive.testing import run_flow

ANY_ERROR = as_match([Exception])
ELSE = RetryPolicy(attempts=3, exception_types=["OtherError"])


def attempts_with(retry: Any, error: Exception) -> int:
    made: list[int] = []

    @action(name="policy lists pay")
    async def pay() -> None:
        made.append(1)
        raise error

    @workflow(name="policy lists pays")
    class Pays(Workflow):
        async def run(self) -> None:
            await self.run_action(pay(), retry=retry)

    assert run_flow(Pays.call()).status == "failed"
    return len(made)


@pytest.mark.promise("R3")
def test_what_one_policy_of_a_list_never_retries_is_never_retried() -> None:
    careful = Policy(attempts=5, retry_on=ANY_ERROR, never_on=as_match([KeyError]))
    assert attempts_with([careful], KeyError("no such user")) == 1
    assert attempts_with([RetryPolicy(attempts=4), careful], KeyError("no such user")) == 1
    assert attempts_with([careful, ELSE], ValueError("odd")) == 5


@pytest.mark.promise("R3")
def test_a_list_is_not_idempotent_if_one_of_its_policies_is_not() -> None:
    harmful = Policy(attempts=5, retry_on=ANY_ERROR, idempotent=False)
    for listed in ([harmful], [ELSE, harmful], [Policy(idempotent=True), harmful]):
        assert attempts_with(listed, ConnectionResetError("it may have taken effect")) == 1
    assert as_policy([ELSE, Policy(idempotent=True)]).idempotent is True
    assert as_policy([ELSE, Policy()]).idempotent is None


@pytest.mark.parametrize(
    ("changes", "instead"),
    [
        ({"deadline": 600.0}, r"Policy\(rules=.*, deadline=600.0\)"),
        ({"attempt_timeout": 5.0}, "timeout=5.0 beside retry="),
        ({"timeout_growth": 2.0}, r"Policy\(rules=.*, timeout_growth=2.0\)"),
        ({"timeout_retries": 1}, r"Policy\(rules=.*, timeout_retries=1\)"),
        ({"max_retry_after": None}, r"Policy\(rules=.*, max_retry_after=None\)"),
        ({"floor": 0.0}, r"Policy\(rules=.*, floor=0.0\)"),
    ],
)
def test_what_is_for_all_attempts_together_is_refused_in_a_list(changes: dict[str, Any], instead: str) -> None:
    field = next(iter(changes))
    with pytest.raises(PolicyError, match=rf"^retry\[1\]\.{field}: .*use .*{instead}"):
        as_policy([ELSE, Policy(**changes)])


@pytest.mark.parametrize("deadline", [60.0, None])
def test_the_default_deadline_of_a_listed_policy_is_that_of_actions_which_is_none(deadline: float | None) -> None:
    assert as_policy([Policy(deadline=deadline), ELSE]).deadline is None


@pytest.mark.promise("R3")
def test_a_rule_of_a_listed_policy_takes_what_it_leaves_out_from_that_policy() -> None:
    first = Policy(attempts=3, backoff=constant(9), jitter=Jitter("full"), max_wait=20.0, retry_on=NOTHING)
    rules = (
        Rule(match=as_match([KeyError])),
        Rule(match=as_match([OSError]), retries=9, backoff=exponential(1), max_wait=5.0),
    )
    taken = as_policy([first.replace(rules=rules), ELSE]).rules[:2]
    assert [(rule.retries, rule.backoff, rule.jitter, rule.max_wait) for rule in taken] == [
        (2, constant(9), Jitter("full"), 20.0),
        (2, exponential(1), Jitter("full"), 5.0),
    ]
    assert attempts_with([first.replace(rules=rules)], KeyError("x")) == 3


def test_a_list_of_policies_that_retry_nothing_retries_nothing() -> None:
    assert attempts_with([Policy(retry_on=NOTHING)], ConnectionResetError("x")) == 1


@pytest.mark.promise("R3")
def test_an_action_that_asks_for_a_retry_gets_it_whatever_the_policies_of_a_list_name() -> None:
    named = RetryPolicy(attempts=4, exception_types=["NetworkError"])
    assert attempts_with(named, RetryAfter(1)) == 4
    assert attempts_with([named, ELSE], RetryAfter(1)) == 4


@pytest.mark.promise("R3")
def test_an_action_that_asks_for_a_retry_gets_it_whatever_the_brackets_name() -> None:
    assert attempts_with("[NetworkError -> retry: 3, backoff: 1s]", RetryAfter(1)) == 4
    assert attempts_with("[NetworkError -> retry: 5, backoff: 1s] [OtherError -> retry: 3]", RetryAfter(1)) == 4
    assert attempts_with("[NetworkError -> retry: 3, backoff: 1s] [OtherError -> retry: 0]", RetryAfter(1)) == 4
    assert attempts_with("[NetworkError -> retry: 0]", RetryAfter(1)) == 1
