"""A policy in words: what it says, and that it says something about every policy."""

import pytest

import redrive
from redrive.notation.policy_words import policy_in_words
from redrive.notation.read import read_policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "attempts: 4",
            "up to 4 attempts within 1m; waits: exponential 500ms, up to 250ms more at random, none above 30s; "
            "retries transient",
        ),
        ("attempts: 1\ndeadline: none", "1 attempt; retries transient"),
        (
            "attempts: unlimited\nbackoff: constant 2s\njitter: full\nmax_wait: none\nattempt_timeout: 5s\n"
            "deadline: 1h\nretry_on: [ConnectionError, 'status:503']\nnever_on: [KeyError]",
            "any number of attempts within 1h; waits: constant 2s, each anywhere from nothing to that; "
            "an attempt may take 5s; retries ConnectionError, status:503; never retries KeyError",
        ),
        (
            "attempts: 9\njitter: proportional 10%\nmax_wait: none\ndeadline: none\nretry_on: []\nrules:\n"
            "- {match: [RateLimitError], retries: 1, backoff: linear 1m}\n- {match: [ValueError], retries: 0}\n"
            "- {match: [OSError], retries: 2}",
            "up to 9 attempts; waits: exponential 500ms, up to 10% more at random; retries RateLimitError once, "
            "waits: linear 1m, up to 10% more at random; does not retry ValueError; retries OSError 2 times",
        ),
    ],
)
def test_a_policy_reads_as_it_acts(text: str, words: str) -> None:
    assert policy_in_words(read_policy(text, "native").policy) == words


def test_what_is_only_code_is_said_to_be() -> None:
    policy = redrive.Policy(retry_on=lambda failure: True)
    assert "retries what a function of yours decides" in policy_in_words(policy)


def test_very_many_rules_are_counted() -> None:
    rules = tuple(redrive.Rule(match=f"Error{number}", retries=1) for number in range(12))
    assert policy_in_words(redrive.Policy(rules=rules)).endswith("retries Error9 once; and 2 more rules")
