"""decide(): every way it can answer, with its reasons."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import AttemptTimeoutError, PolicyError
from redrive.failures.failure import Failure
from redrive.failures.matching import ANYTHING, NOTHING, TRANSIENT, UNKNOWN, Match, as_match, lineage
from redrive.policies.backoff import constant, exponential
from redrive.policies.decide import decide
from redrive.policies.decision import Conditions, Decision, GiveUp, RetryAt
from redrive.policies.history import History, attempt_timeout, cut_at
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, Rule

FLAT: dict[str, Any] = {"backoff": constant(1.0), "jitter": Jitter("none"), "deadline": None}


def failure(category: str = "transient", **facts: object) -> Failure:
    return Failure(category=category, reason="a test says so", **facts)  # type: ignore[arg-type]


def named(name: str, category: str = "unknown") -> Failure:
    return failure(category, type=name, lineage=(name, "Exception"))


def run(policy: Policy, *failures: Failure, every: float = 0.0, **conditions: object) -> list[Decision]:
    """Decide about one failure after the other, as a driver would, until it gives up."""
    history, now, answers = History(0.0), 0.0, []
    for one in failures:
        now += every
        answer = decide(policy, history, one, now, lambda: 0.5, Conditions(**conditions))  # type: ignore[arg-type]
        answers.append(answer)
        if isinstance(answer, GiveUp):
            break
        history, now = history.after(answer), answer.when
    return answers


def gave_up(answers: list[Decision]) -> GiveUp:
    last = answers[-1]
    assert isinstance(last, GiveUp), last
    return last


@pytest.mark.promise("T1")
@pytest.mark.parametrize("attempts", [1, 2, 3, 10])
def test_attempts_are_total_attempts(attempts: int) -> None:
    answers = run(Policy(attempts=attempts, **FLAT), *[failure()] * 20)
    assert len(answers) == attempts
    assert gave_up(answers).kind == "exhausted"


def test_unlimited_attempts_never_exhaust_and_the_history_stays_small() -> None:
    policy = Policy(attempts=None, **FLAT)
    history = History(0.0)
    for _ in range(1000):
        answer = decide(policy, history, failure(), 0.0, lambda: 0.5)
        assert isinstance(answer, RetryAt)
        history = history.after(answer)
    assert history.attempts == 1001
    assert len(history.granted) == 1


@pytest.mark.promise("P4")
def test_unknown_failures_are_not_retried_unless_the_policy_says_so() -> None:
    assert gave_up(run(Policy(), failure("unknown"))).kind == "unknown"
    assert isinstance(run(Policy(retry_on=TRANSIENT | UNKNOWN), failure("unknown"))[0], RetryAt)
    assert isinstance(run(Policy(retry_on=ANYTHING), failure("unknown"))[0], RetryAt)


@pytest.mark.promise("P2")
def test_permanent_failures_are_not_retried() -> None:
    assert gave_up(run(Policy(), failure("permanent"))).kind == "permanent"


def test_a_failure_marked_permanent_is_final_whatever_the_policy_says() -> None:
    policy = Policy(retry_on=ANYTHING, rules=(Rule(match=ANYTHING),))
    assert gave_up(run(policy, failure("permanent", marked_permanent=True))).kind == "permanent"


def test_never_on_wins_over_rules_and_retry_on() -> None:
    policy = Policy(never_on=as_match("Blocked"), rules=(Rule(match=ANYTHING),), retry_on=ANYTHING)
    end = gave_up(run(policy, named("Blocked")))
    assert (end.kind, end.because.rule) == ("permanent", "never_on")


@pytest.mark.promise("R3")
def test_the_first_rule_that_matches_answers_with_its_own_counter_and_backoff() -> None:
    policy = Policy(
        attempts=None,
        deadline=None,
        jitter=Jitter("none"),
        max_wait=None,
        retry_on=NOTHING,
        rules=(
            Rule(match=as_match("RateLimitError"), retries=2, backoff=exponential(60)),
            Rule(match=as_match(["NetworkError", "RateLimitError"]), retries=3, backoff=exponential(30)),
        ),
    )
    rate, network = named("RateLimitError"), named("NetworkError")
    answers = run(policy, rate, network, network, rate, network, network)
    waits = [answer.because.wait for answer in answers if isinstance(answer, RetryAt)]
    assert waits == [60, 30, 60, 120, 120]
    assert [answer.because.rule for answer in answers][:2] == ["rules[0]", "rules[1]"]
    assert gave_up(answers).kind == "exhausted"
    assert gave_up(run(policy, rate, rate, rate)).because.retries == 2
    assert gave_up(run(policy, named("ValueError"))).kind == "unknown"


@pytest.mark.promise("R3")
def test_a_rule_matches_base_classes_by_name() -> None:
    policy = Policy(retry_on=NOTHING, rules=(Rule(match=as_match("OSError"), retries=1),))
    reset = failure("unknown", type="builtins.ConnectionResetError", lineage=("ConnectionResetError", "OSError"))
    assert isinstance(run(policy, reset)[0], RetryAt)


@pytest.mark.promise("P7")
@given(st.floats(0.01, 60))
def test_retry_after_replaces_the_computed_wait(asked: float) -> None:
    answer = run(Policy(deadline=None), failure(status=429, retry_after=asked))[0]
    assert isinstance(answer, RetryAt)
    assert answer.because.wait == asked
    assert answer.because.retry_after == asked


@pytest.mark.promise("P7")
def test_retry_after_above_its_cap_gives_up_and_says_so() -> None:
    end = gave_up(run(Policy(deadline=None), failure(status=503, retry_after=61.0)))
    assert end.kind == "retry_after"
    assert "61" in end.because.detail
    assert end.because.retry_after == 61.0
    assert isinstance(run(Policy(deadline=None, max_retry_after=None), failure(retry_after=3600.0))[0], RetryAt)


@pytest.mark.promise("P7", "P9")
def test_retry_after_now_means_now_plus_jitter_and_never_a_tight_loop() -> None:
    jittered = run(Policy(), failure(retry_after=0.0))[0]
    assert isinstance(jittered, RetryAt)
    assert jittered.because.wait == 0.125
    plain = run(Policy(jitter=Jitter("none"), floor=0.2), failure(retry_after=0.0))[0]
    assert isinstance(plain, RetryAt)
    assert plain.because.wait == 0.2


@pytest.mark.promise("P7", "P9")
@pytest.mark.parametrize("asked", [1e-9, 0.00001, 0.0009])
def test_a_server_that_asks_for_almost_no_wait_gets_no_tight_loop(asked: float) -> None:
    answer = run(Policy(floor=0.2), failure(retry_after=asked))[0]
    assert isinstance(answer, RetryAt)
    assert answer.because.wait == 0.2
    assert answer.because.lifted_to_floor


@pytest.mark.promise("P9")
@pytest.mark.parametrize("asked", [0.0, 0.00001])
def test_the_floor_never_lifts_a_wait_above_the_cap(asked: float) -> None:
    policy = Policy(jitter=Jitter("none"), max_wait=0.02, floor=0.1)
    answer = run(policy, failure(retry_after=asked))[0]
    assert isinstance(answer, RetryAt)
    assert answer.because.wait == 0.02


@pytest.mark.promise("P6")
@given(
    deadline=st.floats(0.01, 1000),
    base=st.floats(0.001, 100),
    took=st.floats(0, 50),
    attempts=st.integers(1, 30),
)
def test_no_wait_is_begun_that_would_end_at_or_past_the_deadline(
    deadline: float, base: float, took: float, attempts: int
) -> None:
    policy = Policy(attempts=attempts, deadline=deadline, backoff=exponential(base))
    for answer in run(policy, *[failure()] * 40, every=took):
        if isinstance(answer, RetryAt):
            assert answer.when < deadline


@pytest.mark.promise("P6")
def test_the_deadline_counts_from_the_first_attempt_and_is_named() -> None:
    answers = run(Policy(attempts=None, deadline=10, backoff=constant(3), jitter=Jitter("none")), *[failure()] * 9)
    assert len(answers) == 4
    end = gave_up(answers)
    assert end.kind == "deadline"
    assert end.because.deadline_left == pytest.approx(1)


@pytest.mark.promise("P8")
def test_after_a_timeout_attempts_get_half_as_much_time_again_once() -> None:
    policy = Policy(attempts=None, attempt_timeout=10.0, deadline=None)
    history, timeouts = History(0.0), []
    for _ in range(4):
        timeouts.append(attempt_timeout(policy, history))
        answer = decide(policy, history, failure(kind="timeout"), 0.0, lambda: 0.5)
        assert isinstance(answer, RetryAt)
        history = history.after(answer)
    assert timeouts == [10, 15, 15, 15]


def test_timeouts_have_their_own_limit_where_one_is_set() -> None:
    policy = Policy(attempts=None, timeout_retries=2, **FLAT)
    assert len(run(policy, *[failure(kind="timeout")] * 9)) == 3
    assert len(run(policy, *[failure()] * 9)) == 9


def test_attempt_timeouts_are_retried_with_whatever_else_the_policy_retries() -> None:
    cut = failure(kind="timeout", lineage=lineage(AttemptTimeoutError))
    assert isinstance(run(Policy(retry_on=as_match(KeyError)), cut)[0], RetryAt)
    assert isinstance(run(Policy(retry_on=NOTHING), cut)[0], GiveUp)
    assert isinstance(run(Policy(never_on=as_match(TimeoutError)), cut)[0], GiveUp)


@pytest.mark.promise("P10")
def test_work_that_is_not_idempotent_is_retried_only_if_it_was_never_sent() -> None:
    policy = Policy(idempotent=False)
    assert gave_up(run(policy, failure())).kind == "not_idempotent"
    assert isinstance(run(policy, failure(not_sent=True))[0], RetryAt)
    assert isinstance(run(Policy(idempotent=True), failure())[0], RetryAt)


@pytest.mark.promise("P14")
def test_a_spent_budget_ends_the_retries() -> None:
    assert gave_up(run(Policy(), failure(), budget_spent=True)).kind == "budget"


@pytest.mark.promise("P13")
def test_an_open_circuit_ends_the_retries_unless_the_wait_outlasts_it() -> None:
    assert gave_up(run(Policy(**FLAT), failure(), circuit="open", circuit_open_until=30.0)).kind == "circuit_open"
    assert isinstance(run(Policy(**FLAT), failure(), circuit="open", circuit_open_until=0.5)[0], RetryAt)


@pytest.mark.promise("P16")
def test_inside_another_attempt_the_retries_belong_to_that_call() -> None:
    assert gave_up(run(Policy(), failure(), owned_elsewhere=True)).kind == "nested"


def test_because_carries_all_that_went_into_the_answer() -> None:
    policy = Policy(attempts=5, max_wait=3.0, backoff=exponential(2.0), jitter=Jitter("additive", 0.5))
    first, second = run(policy, failure(), failure(), budget_left=7.0, circuit="closed")
    assert isinstance(second, RetryAt)
    because = second.because
    assert (because.attempt, because.attempts, because.retry_number) == (2, 5, 1)
    assert (because.raw, because.cap, because.jitter, because.low, because.high) == (4.0, 3.0, "additive", 3.0, 3.0)
    assert (because.category, because.reason, because.matched) == ("transient", "a test says so", "transient failure")
    assert because.deadline_left == pytest.approx(60 - first.because.wait)
    assert (because.budget_left, because.circuit) == (7.0, "closed")


@given(
    category=st.sampled_from(["transient", "permanent", "unknown"]),
    now=st.floats(0, 1e6),
    draw=st.floats(0, 1),
    attempts=st.integers(1, 50),
)
def test_the_same_question_gets_the_same_answer(category: str, now: float, draw: float, attempts: int) -> None:
    history = History(0.0, attempts)
    policy = Policy(attempts=20, deadline=None)
    first = decide(policy, history, failure(category), now, lambda: draw)
    assert first == decide(policy, history, failure(category), now, lambda: draw)


@pytest.mark.promise("T6")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"attempts": 0}, "use 1"),
        ({"attempts": -1}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"attempts": 2.5}, "attempts"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": 10**400}, "deadline"),
        ({"attempt_timeout": -1}, "attempt_timeout"),
        ({"max_wait": 0}, "max_wait"),
        ({"floor": -0.1}, "floor"),
        ({"timeout_growth": 0.5}, "timeout_growth"),
        ({"timeout_growth": 10**400}, "timeout_growth"),
        ({"backoff": exponential(float("inf"))}, "backoff"),
        ({"backoff": exponential(1, factor=0.5)}, "factor"),
        ({"backoff": exponential(1, factor=10**400)}, "factor"),
        ({"jitter": Jitter("additive", -1)}, "jitter"),
        ({"max_retry_after": 1e12}, "max_retry_after"),
        ({"timeout_retries": -2}, "timeout_retries"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_by_field_and_value(settings: dict[str, object], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        Policy(**settings)  # type: ignore[arg-type]


def test_a_rule_that_matches_nothing_is_refused() -> None:
    with pytest.raises(PolicyError, match="match"):
        Rule(match=Match())


def lost(blamed: bool = False) -> Failure:
    return failure(kind="lost", type="redrive.errors.AttemptLostError", blamed=blamed)


@pytest.mark.parametrize(
    "policy", [Policy(retry_on=NOTHING, **FLAT), Policy(retry_on=as_match(["NetworkError"]), **FLAT)]
)
def test_an_attempt_that_lost_its_worker_is_made_again_soon_whatever_the_policy_names(policy: Policy) -> None:
    (answer,) = run(policy, lost())
    assert isinstance(answer, RetryAt)
    assert answer.because.rule == "lost"
    assert answer.because.wait == policy.floor


@pytest.mark.promise("P18")
def test_the_third_attempt_that_takes_its_worker_down_is_poison() -> None:
    down = lost(blamed=True)
    answers = run(Policy(attempts=None, **FLAT), down, failure(), down, failure(), down)
    assert [type(answer) for answer in answers] == [RetryAt, RetryAt, RetryAt, RetryAt, GiveUp]
    assert gave_up(answers).kind == "poison"


def test_those_that_lose_their_worker_again_begin_apart_so_that_one_does_not_always_take_the_same_others_along() -> (
    None
):
    first, again = run(Policy(attempts=None), lost(), lost())
    assert isinstance(first, RetryAt)
    assert isinstance(again, RetryAt)
    assert (first.because.low, first.because.high) == (first.because.wait, first.because.wait)
    assert (again.because.low, again.because.high) == (0.0, 5.0)
    assert again.because.rule == "lost"


@pytest.mark.promise("X3")
def test_attempts_that_are_lost_through_no_fault_of_their_own_do_not_count() -> None:
    policy = Policy(attempts=2, retry_on=ANYTHING, **FLAT)
    answers = run(policy, *[lost()] * 10, failure(), *[lost()] * 10, failure())
    assert {type(answer) for answer in answers[:-1]} == {RetryAt}
    assert gave_up(answers).kind == "exhausted"
    assert gave_up(answers).because.detail == "attempt 2 of 2 failed"


def test_lost_attempts_are_not_repeated_where_that_does_harm() -> None:
    assert gave_up(run(Policy(attempts=1, **FLAT), lost())).kind == "exhausted"
    assert gave_up(run(Policy(attempts=2, **FLAT), *[lost(blamed=True)] * 2)).kind == "exhausted"
    assert gave_up(run(Policy(idempotent=False, **FLAT), lost())).kind == "not_idempotent"


@pytest.mark.promise("P18")
def test_poison_is_never_tried_again() -> None:
    assert gave_up(run(Policy(attempts=None, retry_on=ANYTHING, **FLAT), failure(poison=True))).kind == "poison"


@pytest.mark.promise("P6", "P8")
def test_an_attempt_is_cut_by_its_timeout_or_by_the_deadline_whichever_comes_first() -> None:
    policy = Policy(attempt_timeout=10.0, deadline=25.0)
    assert cut_at(policy, None, 100.0) == 110
    assert cut_at(policy, History(100.0, attempts=2, timeouts=1), 112.0) == 125
    assert cut_at(policy.replace(deadline=None), History(100.0, attempts=2, timeouts=1), 112.0) == 127
    assert cut_at(Policy(deadline=None), None, 100.0) is None
