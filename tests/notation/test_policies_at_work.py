"""Policies read from text, carried out by real guarded calls."""

import json

import pytest
import requests

import redrive
from redrive.notation import read_policy
from redrive.testing import virtual_clock


class NetworkError(ConnectionError):
    pass


class RateLimitError(Exception):
    pass


def carry_out(text: str, *errors: Exception, notation: str = "auto") -> tuple[int, list[float]]:
    """Calls made and waits between them, for work that fails with `errors` in turn, the last of them for ever."""
    retrier = redrive.Retrier(read_policy(text, notation).policy)
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        raise errors[min(calls, len(errors)) - 1]

    with virtual_clock() as clock, pytest.raises(type(errors[-1])):
        retrier.call(work)
    return calls, clock.waits


@pytest.mark.promise("T1")
@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_max_attempts_of_a_template_are_total_attempts(attempts: int) -> None:
    text = f"retry:\n  max_attempts: {attempts}\n  backoff: exponential\n"
    assert carry_out(text, ConnectionError())[0] == attempts


@pytest.mark.promise("T2", "T7")
def test_work_that_is_not_retryable_still_runs_once() -> None:
    text = "retry:\n  retryable: false\n  max_attempts: 3\n  backoff: exponential\n"
    assert carry_out(text, ConnectionError()) == (1, [])


@pytest.mark.promise("T3")
def test_every_field_of_a_template_takes_effect() -> None:
    text = """
retry:
  retryable: true
  max_attempts: 5
  backoff: linear
  backoff_base_ms: 100
  max_backoff_ms: 250
"""
    assert carry_out(text, ConnectionError()) == (5, [0.1, 0.2, 0.25, 0.25])


@pytest.mark.promise("A7", "A8")
@pytest.mark.parametrize(
    ("config", "calls", "waits"),
    [
        ('{"max_retries": 0, "backoff": 100}', 1, []),
        ('{"max_retries": 3, "backoff": 100, "max_backoff": 60000, "backoff_type": "fixed"}', 4, [0.1, 0.1, 0.1]),
        ('{"max_retries": 3, "backoff": 100, "max_backoff": 60000, "backoff_type": "linear"}', 4, [0.1, 0.2, 0.3]),
        ('{"max_retries": 3, "backoff": 100, "max_backoff": 300, "backoff_type": "exponential"}', 4, [0.1, 0.2, 0.3]),
    ],
)
def test_a_work_config_is_kept_to_the_letter(config: str, calls: int, waits: list[float]) -> None:
    assert carry_out(config, ConnectionError(), notation="work_config") == (calls, waits)


@pytest.mark.promise("A7")
def test_unlimited_retries_end_only_with_a_permanent_failure() -> None:
    config = '{"max_retries": -1, "backoff": 100, "max_backoff": 1000, "backoff_type": "exponential"}'
    calls, waits = carry_out(config, *[ConnectionError()] * 200, redrive.Permanent("stop"), notation="work_config")
    assert calls == 201
    assert max(waits) == 1.0


@pytest.mark.promise("R1", "R3")
def test_brackets_answer_each_failure_with_their_own_counter_and_wait() -> None:
    text = "[RateLimitError -> retry: 2, backoff: 1m] [NetworkError -> retry: 1, backoff: 30s]"
    calls, waits = carry_out(text, RateLimitError(), NetworkError(), RateLimitError(), RateLimitError())
    assert (calls, waits) == (4, [60, 30, 120])
    assert carry_out(text, NetworkError(), NetworkError()) == (2, [30])
    assert carry_out(text, ValueError()) == (1, [])


@pytest.mark.promise("R1")
def test_a_bracket_names_base_classes_too() -> None:
    assert carry_out("[OSError -> retry: 2, backoff: 5s]", NetworkError()) == (3, [5, 10])


@pytest.mark.promise("S4", "S2")
def test_stage_arguments_at_work() -> None:
    text = '{"max_attempts": 5, "base_delay_ms": 1000, "jitter_strategy": "none"}'
    assert carry_out(text, ConnectionError(), notation="stage") == (5, [1, 2, 4, 8])


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("IOError", OSError()),
        ("asyncio.TimeoutError", TimeoutError()),
        ("json.JSONDecodeError", json.JSONDecodeError("x", "", 0)),
        ("requests.Timeout", requests.ReadTimeout()),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "attempts: 3\nretry_on: [NAME]",
        "attempts: 3\nretry_on: []\nrules:\n  - match: NAME",
        "[NAME -> retry: 2, backoff: 1s]",
        '[{"ErrorEquals": ["NAME"], "MaxAttempts": 2}]',
        "tenacity.retry(retry=retry_if_exception_type(NAME), stop=stop_after_attempt(3))",
        "stamina.retry(on=NAME, attempts=3)",
    ],
)
def test_an_error_is_known_by_the_name_it_is_imported_by(text: str, name: str, error: Exception) -> None:
    assert carry_out(text.replace("NAME", name), error)[0] == 3
