"""A policy written down reads back to itself: exactly in redrive's own notation, in meaning in all others."""

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.failures.matching import ANYTHING, NOTHING, Match
from redrive.notation import native_schema, read_policy, write_lossy, write_policy
from redrive.notation.catalogue import WRITABLE
from redrive.notation.formats.native import as_data
from redrive.notation.meaning import differences, meaning_of
from redrive.notation.source import load_document
from redrive.policies.backoff import Backoff, BackoffKind
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, Rule

durations = st.integers(1, 10**10).map(lambda ms: ms / 1000) | st.floats(1e-6, 315_360_000.0)
backoffs = st.builds(
    lambda kind, base, factor: Backoff(kind, base, factor if kind == "exponential" else 2.0),
    st.sampled_from(["constant", "linear", "exponential"]),
    st.just(0.0) | durations,
    st.floats(1, 1000) | st.integers(1, 10).map(float),
)
plain_jitters = st.sampled_from([Jitter("none"), Jitter("full"), Jitter("equal"), Jitter("decorrelated")])
fractions = st.integers(1, 1000).map(lambda percent: percent / 100) | st.floats(0.001, 10)
jitters = (
    plain_jitters
    | durations.map(lambda amount: Jitter("additive", amount))
    | fractions.map(lambda amount: Jitter("proportional", amount))
)
names = st.sampled_from(
    ["ConnectionError", "httpx.ConnectError", "app.<locals>.Busy", "Überlast", "_Private", "On", "Null", "TimeoutError"]
)
statuses = st.tuples(st.integers(100, 599), st.integers(100, 599)).map(lambda pair: (min(pair), max(pair)))
matches = st.builds(
    Match,
    categories=st.lists(st.sampled_from(["transient", "permanent", "unknown", "any"]), max_size=2).map(tuple),
    names=st.lists(names, max_size=3).map(tuple),
    statuses=st.lists(statuses, max_size=2).map(tuple),
)
rules = st.builds(
    Rule,
    match=matches.filter(bool),
    retries=st.none() | st.integers(0, 1000),
    backoff=st.none() | backoffs,
    jitter=st.none() | jitters,
    max_wait=st.none() | durations,
)
policies = st.builds(
    Policy,
    attempts=st.none() | st.integers(1, 2_147_483_647),
    backoff=backoffs,
    jitter=jitters,
    max_wait=st.none() | durations,
    deadline=st.none() | durations,
    attempt_timeout=st.none() | durations,
    timeout_growth=st.floats(1, 10),
    timeout_retries=st.none() | st.integers(0, 1000),
    max_retry_after=st.none() | st.just(0.0) | durations,
    floor=st.just(0.0) | durations,
    retry_on=matches,
    never_on=matches,
    rules=st.lists(rules, max_size=3).map(tuple),
    idempotent=st.none() | st.booleans(),
)


@given(policies)
@example(Policy())
def test_native_gives_back_every_policy_exactly(policy: Policy) -> None:
    for notation in ("native", "native_json"):
        assert read_policy(write_policy(policy, notation), "native").policy == policy
    assert read_policy(write_policy(policy)).notation == "native"


@given(policies)
def test_what_native_writes_fits_its_schema(policy: Policy) -> None:
    schema = native_schema()
    jsonschema.Draft202012Validator(schema).validate(as_data(policy))
    jsonschema.Draft202012Validator(schema).validate(load_document(write_policy(policy)).data)


def test_the_schema_itself_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(native_schema())


@pytest.mark.promise("R1")
@given(policies)
def test_brackets_keep_the_meaning_of_every_policy_and_print_stably(policy: Policy) -> None:
    printed = write_policy(policy, "brackets")
    read = read_policy(printed)
    assert read.notation == "brackets"
    assert differences(meaning_of(policy), meaning_of(read.policy)) == []
    assert write_policy(read.policy, "brackets") == printed


@given(policies, st.sampled_from(WRITABLE))
def test_no_notation_loses_anything_without_a_word(policy: Policy, notation: str) -> None:
    """Either the text means the same, or strict writing refuses and lossy writing warns."""
    text, warnings = write_lossy(policy, notation)
    same = not differences(meaning_of(policy), meaning_of(read_policy(text, notation).policy))
    assert same == (not warnings)
    if same:
        assert write_policy(policy, notation) == text
    else:
        with pytest.raises(NotationError) as refused:
            write_policy(policy, notation)
        assert "cannot express it" in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1


milliseconds = st.integers(1, 10**9)
kinds: st.SearchStrategy[BackoffKind] = st.sampled_from(["constant", "linear", "exponential"])


@pytest.mark.promise("A7", "T3", "S4")
@given(
    notation=st.sampled_from(["work_config", "template", "stage"]),
    attempts=st.integers(1, 1000),
    kind=kinds,
    base=milliseconds,
    cap=milliseconds,
)
def test_what_a_notation_can_say_goes_there_and_back(
    notation: str, attempts: int, kind: BackoffKind, base: int, cap: int
) -> None:
    policy = Policy(
        attempts=attempts,
        backoff=Backoff(kind, base / 1000),
        jitter=Jitter("none"),
        max_wait=cap / 1000,
        deadline=None,
        retry_on={
            "work_config": Match(categories=("transient",)),
            "template": Match(categories=("transient", "unknown")),
            "stage": Match(names=("TimeoutError", "app.Busy")),
        }[notation],
    )
    text = write_policy(policy, notation)
    read = read_policy(text, notation)
    assert differences(meaning_of(policy), meaning_of(read.policy)) == []
    assert write_policy(read.policy, notation) == text
    if attempts > 1:
        assert read.policy == policy


def test_classes_are_written_by_name_and_mean_the_same() -> None:
    policy = Policy(retry_on=Match(types=(ConnectionError, jsonschema.ValidationError)))
    written = as_data(policy)["retry_on"]
    assert written == ["ConnectionError", "jsonschema.exceptions.ValidationError"]
    assert differences(meaning_of(policy), meaning_of(read_policy(write_policy(policy)).policy)) == []


@pytest.mark.parametrize("notation", ["native", "brackets"])
@pytest.mark.parametrize(
    "match",
    [
        Match(predicates=(lambda error: True,)),
        Match(names=("transient",)),
        Match(names=("status:429",)),
        Match(names=("not a name",)),
        Match(names=("none",)),
    ],
)
def test_what_cannot_be_written_down_is_refused_by_name(notation: str, match: Match) -> None:
    with pytest.raises(NotationError, match=r"(retry_on|match).*cannot be written.*allowed: class names"):
        write_policy(Policy(retry_on=match), notation)


def test_rules_and_retry_on_become_brackets_in_their_order() -> None:
    policy = Policy(
        attempts=5,
        rules=(Rule(match=Match(names=("RateLimitError",)), retries=10, backoff=Backoff("linear", 60.0)),),
    )
    assert write_policy(policy, "brackets").splitlines() == [
        "[RateLimitError -> retry: 10, backoff: 1m, linear, max_backoff: 30s, jitter: additive 250ms]",
        "[transient -> backoff: 500ms, max_backoff: 30s, jitter: additive 250ms]",
        "[attempts: 5, deadline: 1m]",
    ]


@pytest.mark.parametrize(
    ("amount", "text"), [(0.1, "10%"), (0.07, "7%"), (0.025, "2.5%"), (1, "100%"), (10.0, "1000%"), (0.0, "0%")]
)
def test_proportional_jitter_is_written_as_a_percentage(amount: float, text: str) -> None:
    policy = Policy(attempts=5, deadline=None, jitter=Jitter("proportional", amount))
    assert as_data(policy)["jitter"] == f"proportional {text}"
    assert read_policy({"jitter": f"proportional {text}"}).policy.jitter == Jitter("proportional", amount)
    if amount:
        assert f"jitter: proportional {text}]" in write_policy(policy, "brackets")
    jsonschema.Draft202012Validator(native_schema()).validate(as_data(policy))


def test_a_stage_gets_the_jitter_nearest_to_proportional_and_says_so() -> None:
    written, lost = write_lossy(Policy(jitter=Jitter("proportional", 0.1), deadline=None), "stage")
    assert 'jitter_strategy="equal"' in written
    assert "lost-jitter" in [one.id for one in lost]


def test_timeouts_that_retry_on_would_answer_are_named_in_brackets() -> None:
    policy = Policy(retry_on=Match(names=("KeyError",)), attempt_timeout=5.0)
    assert "(KeyError, AttemptTimeoutError) -> " in write_policy(policy, "brackets")


def test_a_policy_that_never_retries_is_written_as_one_attempt() -> None:
    for policy in (Policy(attempts=1, deadline=None), Policy(retry_on=NOTHING, deadline=None)):
        assert write_policy(policy, "brackets") == "[retry: 0]\n"
        assert write_policy(policy, "template") == "retry:\n  retryable: false\n  max_attempts: 1\n"
        assert read_policy(write_policy(policy, "work_config")).policy.attempts == 1


def test_an_unlimited_policy_is_unlimited_where_there_is_a_word_for_it() -> None:
    policy = Policy(attempts=None, deadline=None, jitter=Jitter("none"), retry_on=ANYTHING)
    assert "retry: -1" in write_policy(policy, "brackets")
    assert '"max_retries": -1' in write_lossy(policy, "work_config")[0]
    assert [one.id for one in write_lossy(policy, "template")[1]] == ["lost-attempts", "lost-retry_on"]
