"""tenacity settings, checked against tenacity itself."""

import random
from typing import Any

import pytest
import tenacity

from redrive.errors import NotationError
from redrive.notation import read_policy
from redrive.policies.decide import decide
from redrive.policies.decision import RetryAt
from redrive.policies.history import History
from redrive.policies.policy import Policy
from redrive.policies.preview import PLAIN_FAILURE, preview, read_failure

EXACT: dict[str, Any] = {
    "wait_fixed(2)": tenacity.wait_fixed(2),
    "wait_random(1, 3)": tenacity.wait_random(1, 3),
    "wait_random(max=4)": tenacity.wait_random(max=4),
    "wait_exponential()": tenacity.wait_exponential(),
    "wait_exponential(multiplier=3, max=20)": tenacity.wait_exponential(multiplier=3, max=20),
    "wait_exponential(0.5, 60, 3)": tenacity.wait_exponential(0.5, 60, 3),
    "wait_exponential(multiplier=4, min=4, max=10)": tenacity.wait_exponential(multiplier=4, min=4, max=10),
    "wait_exponential(multiplier=1, min=5, max=4)": tenacity.wait_exponential(multiplier=1, min=5, max=4),
    "wait_random_exponential(multiplier=0.5, max=60)": tenacity.wait_random_exponential(multiplier=0.5, max=60),
    "tenacity.wait_full_jitter(multiplier=1, max=5)": tenacity.wait_full_jitter(multiplier=1, max=5),
    "wait_exponential_jitter(multiplier=2, max=30, jitter=3)": tenacity.wait_exponential_jitter(
        multiplier=2, max=30, jitter=3
    ),
    "wait_incrementing(start=5, increment=5, max=12)": tenacity.wait_incrementing(start=5, increment=5, max=12),
    "wait_incrementing(7, 0)": tenacity.wait_incrementing(7, 0),
    "wait_fixed(3) + wait_random(0, 2)": tenacity.wait_fixed(3) + tenacity.wait_random(0, 2),
    "wait_combine(wait_fixed(1), wait_fixed(2))": tenacity.wait_combine(tenacity.wait_fixed(1), tenacity.wait_fixed(2)),
    "wait_exponential(multiplier=1) + wait_random(0, 1)": tenacity.wait_exponential(multiplier=1)
    + tenacity.wait_random(0, 1),
    "wait_fixed(timedelta(minutes=1))": tenacity.wait_fixed(60),
}
LONGER: dict[str, tuple[Any, str]] = {
    "wait_exponential(multiplier=1, min=4, max=10)": (
        tenacity.wait_exponential(multiplier=1, min=4, max=10),
        "minimum-wait",
    ),
    "wait_incrementing(start=1, increment=3)": (tenacity.wait_incrementing(start=1, increment=3), "start-differs"),
    "wait_none()": (tenacity.wait_none(), "zero-wait"),
}


def library_waits(wait: Any, count: int) -> list[float]:
    """What tenacity really sleeps."""
    slept: list[float] = []

    def fail() -> None:
        raise ConnectionError

    retrying = tenacity.Retrying(
        wait=wait, stop=tenacity.stop_after_attempt(count + 1), sleep=slept.append, reraise=True
    )
    with pytest.raises(ConnectionError):
        retrying(fail)
    return slept


def our_waits(policy: Policy, draw: float, count: int) -> list[float]:
    history, waits = History(0.0), []
    for _ in range(count):
        answer = decide(policy, history, PLAIN_FAILURE, 0.0, lambda: draw)
        assert isinstance(answer, RetryAt)
        waits.append(answer.because.wait)
        history = history.after(answer)
    return waits


@pytest.fixture(params=[0.0, 0.25, 1.0])
def draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """Chance, the same for tenacity and for us."""
    share: float = request.param
    monkeypatch.setattr(random, "random", lambda: share)
    monkeypatch.setattr(random, "uniform", lambda low, high: low + (high - low) * share)
    return share


@pytest.mark.parametrize("text", EXACT)
def test_waits_are_those_of_the_library(text: str, draw: float) -> None:
    policy = read_policy({"wait": text}, "tenacity").policy
    assert our_waits(policy, draw, 9) == pytest.approx(library_waits(EXACT[text], 9))


@pytest.mark.parametrize("text", LONGER)
def test_waits_that_do_not_fit_exactly_are_longer_and_said(text: str, draw: float) -> None:
    wait, warning = LONGER[text]
    reading = read_policy({"wait": text, "reraise": True}, "tenacity")
    assert [one.id for one in reading.warnings] == [warning]
    ours, theirs = our_waits(reading.policy, draw, 9), library_waits(wait, 9)
    assert all(one >= other for one, other in zip(ours, theirs, strict=True))


def test_a_cap_holds_after_the_random_part_and_that_is_said() -> None:
    reading = read_policy({"wait": "wait_exponential(max=8) + wait_random(0, 3)", "reraise": True}, "tenacity")
    assert [one.id for one in reading.warnings] == ["cap-after-jitter"]
    assert max(our_waits(reading.policy, 1.0, 9)) == 8.0


@pytest.mark.parametrize(
    ("stop", "attempts", "deadline"),
    [
        ("stop_after_attempt(5)", 5, None),
        ("stop_after_delay(10)", None, 10.0),
        ("stop_before_delay(max_delay=1.5)", None, 1.5),
        ("stop_after_attempt(5) | stop_after_delay(10)", 5, 10.0),
        ("(stop_after_attempt(5) | stop_after_delay(10) | stop_after_attempt(3))", 3, 10.0),
        ("stop_any(stop_after_attempt(7), stop_after_delay(timedelta(minutes=1)))", 7, 60.0),
        ("stop_never", None, None),
        ("tenacity.stop_after_attempt(2)", 2, None),
    ],
)
def test_stops_become_attempts_and_deadline(stop: str, attempts: int | None, deadline: float | None) -> None:
    reading = read_policy({"stop": stop, "wait": "wait_fixed(1)", "reraise": True}, "tenacity")
    assert (reading.policy.attempts, reading.policy.deadline) == (attempts, deadline)
    assert [one.id for one in reading.warnings] == (["deadline-cuts"] if deadline else [])


@pytest.mark.parametrize(
    ("retry", "retried", "not_retried"),
    [
        ("retry_if_exception_type()", "ValueError", None),
        ("retry_if_exception_type(IOError)", "ConnectionError", "ValueError"),
        ("retry_if_exception_type((ValueError, KeyError))", "KeyError", "TypeError"),
        ("retry_if_exception_type(ValueError) | retry_if_exception_type(KeyError)", "KeyError", "TypeError"),
        ("retry_any(retry_if_exception_type(KeyError))", "KeyError", "TypeError"),
        ("retry_if_not_exception_type(ValueError)", "KeyError", "ValueError"),
        ("retry_never", None, "KeyError"),
    ],
)
def test_what_is_retried(retry: str, retried: str | None, not_retried: str | None) -> None:
    policy = read_policy({"retry": retry, "stop": "stop_after_attempt(4)"}, "tenacity").policy
    if retried:
        assert preview(policy, read_failure(retried)).attempts == 4
    if not_retried:
        assert preview(policy, read_failure(not_retried)).attempts == 1


def test_the_decorator_is_read_as_it_stands_in_code() -> None:
    reading = read_policy(
        "@retry(\n"
        "    stop=stop_after_attempt(5) | stop_after_delay(30),  # bounded\n"
        "    wait=wait_exponential(multiplier=1, max=10),\n"
        "    retry=retry_if_exception_type((IOError, requests.exceptions.Timeout)),\n"
        "    before_sleep=before_sleep_log(logger, logging.WARNING),\n"
        ")\n"
        "def fetch():\n    '''Text that is \"not\" looked at.'''\n",
        source="client.py",
    )
    assert reading.notation == "tenacity"
    assert (reading.policy.attempts, reading.policy.max_wait, reading.policy.deadline) == (5, 10.0, 30.0)
    assert reading.policy.retry_on.names == ("OSError", "requests.exceptions.Timeout")
    assert sorted((one.id, one.line) for one in reading.warnings) == [
        ("deadline-cuts", 2),
        ("error-not-wrapped", 1),
        ("ignored-setting", 5),
    ]


def test_a_class_of_an_unknown_module_is_warned_about_because_the_module_may_only_import_it() -> None:
    errors = "(httpx.TransportError, requests.ConnectionError, json.JSONDecodeError, shop.errors.Busy)"
    reading = read_policy(f"@retry(retry=retry_if_exception_type({errors}), reraise=True)")
    (warning,) = [one for one in reading.warnings if one.id == "dotted-name"]
    assert warning.text.startswith("shop.errors.Busy matches only if shop.errors or a module below it defines")
    assert warning.text.endswith("write Busy")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"retry": "retry_if_result(is_none)"}, "key 'retry'.*retry_if_result cannot be read"),
        ({"retry": "retry_if_exception(is_busy)"}, "key 'retry'.*cannot be read"),
        ({"stop": "stop_all(stop_after_attempt(3))"}, "key 'stop'.*stop_all cannot be read"),
        ({"stop": "stop_after_attempt(3) & stop_after_delay(3)"}, "key 'stop'"),
        ({"wait": "wait_chain(wait_fixed(1))"}, "key 'wait'.*wait_chain cannot be read"),
        ({"wait": "wait_exponential() + wait_exponential()"}, "key 'wait'.*cannot be added up"),
        ({"wait": "lambda state: 3"}, "key 'wait'"),
        ({"wait": "__import__('os').system('true')"}, "key 'wait'"),
    ],
)
def test_python_code_is_never_run_and_what_cannot_be_read_is_named(settings: dict[str, str], says: str) -> None:
    with pytest.raises(NotationError, match=f"{says}.*allowed: "):
        read_policy(settings, "tenacity")


@pytest.mark.parametrize("text", ["@retry", "@retry()", "@retry\ndef fetch():\n    ...", "@tenacity.retry"])
def test_a_bare_decorator_retries_for_ever_without_waiting(text: str) -> None:
    policy = read_policy(text, "tenacity").policy
    assert (policy.attempts, policy.deadline, policy.backoff.base) == (None, None, 0.0)


def test_a_bare_decorator_that_could_be_anyones_is_refused_with_the_way_out() -> None:
    with pytest.raises(NotationError, match="--from tenacity"):
        read_policy("@retry")


@pytest.mark.parametrize(
    "text",
    [
        "    @retry(stop=stop_after_attempt(5))\n    def fetch(self):\n        ...",
        "@retry(stop=stop_after_attempt(5))\n    def fetch(self):",
        "@retry(stop=stop_after_attempt(5))\n@cached\nasync def fetch(): ...",
        "@retry(\r\n  stop=stop_after_attempt(5),\r\n)\r\nclass Client:",
        "Retrying(stop=tenacity.stop_after_attempt(max_attempt_number=5)):",
    ],
)
def test_code_is_read_as_it_was_pasted(text: str) -> None:
    assert read_policy(text, "tenacity").policy.attempts == 5


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("@retry(\n  stop=stop_after_attempt(3),\n  wait=lambda state: 3,\n)", 3, 8),
        ("# überall\n@retry(wait=größe[0])", 2, 13),
        ("@retry(\n  stop=stop_after_attempt(3", 1, 7),
        ("@retry(stop=1, stop=2)", 1, 21),
        ("@retry(**settings)", 1, 10),
    ],
)
def test_the_position_of_what_cannot_be_read_is_given(text: str, line: int, column: int) -> None:
    with pytest.raises(NotationError) as caught:
        read_policy(text, "tenacity")
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("depth", [60, 5_000, 60_000])
@pytest.mark.parametrize("part", ["f({})", "[{}]", "-{}", "a | {}", "({})", "a.{}"])
def test_deep_nesting_is_refused(part: str, depth: int) -> None:
    opening, _, closing = part.partition("{}")
    text = f"retry(wait={opening * depth}a{closing * depth})"
    with pytest.raises(NotationError):
        read_policy(text[:250_000], "tenacity")
