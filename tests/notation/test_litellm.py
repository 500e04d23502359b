"""litellm settings as policies."""

import pytest

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.preview import preview, read_failure

PROXY = """
model_list:
  - model_name: gpt
    litellm_params: {model: openai/gpt-5}
litellm_settings:
  num_retries: 5
  request_timeout: 600
  drop_params: true
router_settings:
  routing_strategy: least-busy
  num_retries: 3
  timeout: 30
  retry_after: 2
  allowed_fails: 3
  retry_policy:
    RateLimitErrorRetries: 6
    AuthenticationErrorRetries: 0
"""


def test_retries_timeout_and_waits() -> None:
    reading = read_policy("num_retries: 4\nrequest_timeout: 90\n")
    policy = reading.policy
    assert (reading.notation, policy.attempts, policy.attempt_timeout) == ("litellm", 5, 90)
    assert [row.raw for row in preview(policy, read_failure("ConnectionError")).rows if row.raw] == [0.5, 1, 2, 4]
    assert (policy.max_retry_after, policy.max_wait, policy.deadline) == (60, 8, None)
    assert [one.id for one in reading.warnings] == ["no-deadline"]
    assert read_policy({}, "litellm").policy.attempts == 3
    assert read_policy({"max_retries": 0}, "litellm").policy.attempts == 1
    assert read_policy("litellm.completion(num_retries=2, timeout=5)").policy.attempts == 3


def test_the_config_of_a_proxy_is_one_policy_and_its_router_comes_first() -> None:
    reading = read_policy(PROXY)
    policy = reading.policy
    assert (reading.notation, policy.attempts, policy.attempt_timeout) == ("litellm", 7, 30)
    assert policy.backoff.base == 2
    attempts = {
        name: preview(policy, read_failure(name)).attempts
        for name in ("RateLimitError", "AuthenticationError", "ConnectionError", "ValueError")
    }
    assert attempts == {"RateLimitError": 7, "AuthenticationError": 1, "ConnectionError": 4, "ValueError": 1}
    assert [one.id for one in reading.warnings] == ["not-a-policy", "no-deadline"]
    assert "CircuitSettings" in reading.warnings[0].text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("num_retries: -1", "num_retries"),
        ("num_retries: many", "num_retries"),
        ("num_retries: 2\ntimeout: 0", "timeout"),
        ("num_retries: 2\nretry_strategy: never", "retry_strategy"),
        ("num_retries: 2\nretry_policy: {RateLimitRetries: 3}", "retry_policy.RateLimitRetries"),
        ("router_settings: {num_retries: x}", "router_settings.num_retries"),
    ],
)
def test_mistakes_are_named(text: str, key: str) -> None:
    with pytest.raises(NotationError) as caught:
        read_policy(text)
    assert caught.value.key == key
    assert caught.value.line is not None
