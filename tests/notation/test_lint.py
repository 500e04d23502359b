"""The linter: each rule fires where it should, stays silent where it should, and says where and what to write."""

import pytest

from redrive.errors import NotationError
from redrive.failures.matching import Match
from redrive.notation import Finding, lint, lint_source, lint_text, read_policy
from redrive.notation.linting.linter import RULES
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy


def found(text: str, notation: str = "auto") -> dict[str, Finding]:
    return {one.id: one for one in lint_text(text, notation)}


CLEAN = [
    "attempts: 3",
    "attempts: 5\nbackoff: exponential 1s\njitter: full\ndeadline: 2m\nattempt_timeout: 10s",
    "attempts: unlimited\ndeadline: 10m",
    "[(ConnectionError, TimeoutError) -> retry: 3, backoff: 1s, jitter: full] [timeout: 5s]",
    "RetryInterceptor(max_attempts=4)",
    '[{"ErrorEquals": ["Busy"], "JitterStrategy": "FULL", "MaxDelaySeconds": 60}]',
    "stamina.retry(on=OSError)",
    "retry:\n  retryable: false\n  max_attempts: 1",
]

# id, a text that has the mistake, the key, the line, a word of the advice; and the same text put right
CASES: list[tuple[str, str, str, int, str, str]] = [
    ("RD001", "attempts: 3\njitter: none", "jitter", 2, "jitter: full", "attempts: 3\njitter: full"),
    ("RD001", '{"max_retries": 3}', "jitter", 1, "convert it to native", ""),
    (
        "RD001",
        "[A -> retry: 3, backoff: 1s]",
        "brackets[0]",
        1,
        "jitter: full",
        "[A -> retry: 3, backoff: 1s, jitter: full]",
    ),
    (
        "RD002",
        "deadline: none\nattempts: unlimited",
        "attempts",
        2,
        "deadline: 10m",
        "deadline: 1h\nattempts: unlimited",
    ),
    ("RD002", '{"max_retries": -1}', "max_retries", 1, '"max_retries": 9', '{"max_retries": 9}'),
    (
        "RD002",
        "[A -> retry: -1, backoff: 1s]",
        "attempts",
        1,
        "deadline",
        "[A -> retry: -1, backoff: 1s] [deadline: 1h]",
    ),
    ("RD003", "attempts: 3\nidempotent: false", "idempotent", 2, "idempotency key", "attempts: 1\nidempotent: false"),
    (
        "RD005",
        "attempts: 5\nbackoff: linear 2s\ndeadline: 10s",
        "deadline",
        3,
        "above 21s",
        "attempts: 3\ndeadline: 10s",
    ),
    (
        "RD005",
        "attempts: 3\nattempt_timeout: 20s\ndeadline: 50s",
        "deadline",
        3,
        "above 1m22s",
        "attempts: 3\nattempt_timeout: 20s\ndeadline: 90s",
    ),
    ("RD006", "retry:\n  max_attempts: 0", "retry.max_attempts", 2, "max_attempts: 1", "retry:\n  max_attempts: 1"),
    ("RD006", "attempts: 0", "attempts", 1, "attempts: 1", "attempts: 1"),
    ("RD006", "@retry(\n stop=stop_after_attempt(0))", "stop", 2, "stop_after_attempt(1)", ""),
    ("RD006", "[retry: 3, backoff: 1s]\n[attempts: 0]", "brackets[1].attempts", 2, "attempts: 1", ""),
    (
        "RD007",
        "retry:\n  retryable: false\n  max_attempts: 3",
        "retry.max_attempts",
        3,
        "max_attempts: 1",
        "retry:\n  retryable: false\n  max_attempts: 1",
    ),
    ("RD008", "retry:\n  retry_limit: 3", "retry.retry_limit", 2, "max_attempts", "retry:\n  max_attempts: 3"),
    ("RD009", "attempt_timeout: 2m", "attempt_timeout", 1, "under 1m", "attempt_timeout: 10s"),
    ("RD010", "backoff: constant 1m\nmax_wait: 5s", "max_wait", 2, "above 1m", "backoff: constant 5s\nmax_wait: 5s"),
    ("RD011", "backoff: constant 0s", "backoff", 1, "500ms", "backoff: constant 1s"),
    ("RD011", "[A -> retry: 3]", "brackets[0]", 1, "backoff: 500ms", "[A -> retry: 3, backoff: 1s]"),
    ("RD012", "attempts: 50\ndeadline: none", "attempts", 1, "deadline: 10m", "attempts: 50\ndeadline: 10m"),
    ("RD013", '{"max_backoff": 600000, "max_retries": 20}', "max_backoff", 1, "30000", '{"max_backoff": 30000}'),
    ("RD014", "retry_on: any", "retry_on", 1, "[transient]", "retry_on: any\nidempotent: true"),
    ("RD014", "retry:\n  max_attempts: 3", "retry_on", 1, "convert", ""),
    (
        "RD015",
        "rules:\n  - match: OSError\n  - match: [ConnectionError, TimeoutError]",
        "rules[1]",
        3,
        "narrower rule first",
        "rules:\n  - match: [ConnectionError, TimeoutError]\n  - match: OSError",
    ),
    ("RD015", "rules: [{match: 'status:5xx'}, {match: 503}]", "rules[1]", 1, "first", "rules: [{match: 503}]"),
    ("RD015", "never_on: OSError\nrules:\n  - match: ConnectionError", "rules[0]", 3, "never_on", "never_on: OSError"),
    ("RD015", "[retry: 3, backoff: 1s]\n[A -> retry: 3, backoff: 1s]", "brackets[1]", 2, "first", ""),
    ("RD016", "attempts: 1\nbackoff: linear 1s", "backoff", 2, "remove it", "attempts: 1"),
    ("RD017", "deadline: 30s\nmax_retry_after: 5m", "max_retry_after", 2, "30s or less", "deadline: 30s"),
    (
        "RD019",
        "[A -> retry: 3, backoff: 1s]\n[timeout: 5s]",
        "brackets[1].timeout",
        2,
        "TimeoutError",
        "[(A, TimeoutError) -> retry: 3, backoff: 1s] [timeout: 5s]",
    ),
    (
        "RD020",
        "attempts: 3\nrules:\n  - {match: A, retries: 10}",
        "rules[0]",
        3,
        "attempts: 11",
        "attempts: 11\nrules:\n  - {match: A, retries: 10}",
    ),
    ("RD021", "retry_on: [transient, permanent]", "retry_on", 1, "[transient]", "retry_on: [transient]"),
]


@pytest.mark.parametrize("text", CLEAN)
def test_good_policies_are_left_alone(text: str) -> None:
    assert lint_text(text) == []


@pytest.mark.promise("P15", "T6", "T7", "T9")
@pytest.mark.parametrize(("rule", "text", "key", "line", "advice", "better"), CASES)
def test_each_rule_says_where_why_and_what_instead(
    rule: str, text: str, key: str, line: int, advice: str, better: str
) -> None:
    finding = found(text)[rule]
    assert (finding.key, finding.line) == (key, line)
    assert advice in finding.instead
    assert finding.text
    if better:
        assert rule not in found(better)


def test_every_rule_is_listed_and_tested() -> None:
    assert list(RULES) == [f"RD{number:03}" for number in range(1, len(RULES) + 1)]
    fired = {rule: found(text)[rule].severity for rule, text, *_ in CASES}
    fired["RD004"] = lint(Policy(), inside=Policy())[0].severity
    fired["RD018"] = lint(Policy(retry_on=Match(names=("IOError",))))[0].severity
    fired["RD023"] = lint(Policy(retry_on=Match(names=("ConectionError",))))[0].severity
    fired["RD022"] = lint_source("import openai, redrive\nclient = openai.OpenAI()")[0][0].severity
    assert fired == {rule: about.severity for rule, about in RULES.items()}


def test_an_old_class_name_in_a_policy_made_in_python_is_found() -> None:
    (finding,) = lint(Policy(retry_on=Match(names=("IOError",))))
    assert (finding.id, finding.key, finding.instead) == ("RD018", "retry_on", "write OSError")
    assert lint(Policy(retry_on=Match(names=("OSError",)))) == []


def test_a_misspelled_built_in_exception_is_found_and_errors_of_clients_are_not() -> None:
    (finding,) = lint(Policy(retry_on=Match(names=("ConectionError",))))
    assert (finding.id, finding.instead) == ("RD023", "write ConnectionError, if that is meant")
    theirs = (
        "ConnectError",
        "ReadTimeoutError",
        "APITimeoutError",
        "httpx.TimeoutError",
        "ConnectTimeout",
        "TimeoutError",
    )
    assert lint(Policy(retry_on=Match(names=theirs))) == []


@pytest.mark.promise("P15")
@pytest.mark.parametrize(
    ("inner", "outer", "says"),
    [
        (Policy(), Policy(), "3 x 3 = 9 calls"),
        (Policy(attempts=4), read_policy("[retry: 9, backoff: 1s]"), "10 x 4 = 40 calls"),
        (Policy(attempts=None), Policy(), "without any limit"),
    ],
)
def test_nested_policies_multiply(inner: Policy, outer: Policy, says: str) -> None:
    (finding,) = [one for one in lint(inner, inside=outer) if one.id == "RD004"]
    assert says in finding.text


def test_a_single_attempt_inside_or_outside_multiplies_nothing() -> None:
    once = Policy(attempts=1)
    assert "RD004" not in {one.id for one in [*lint(once, inside=Policy()), *lint(Policy(), inside=once)]}


@pytest.mark.promise("P15")
def test_policies_nested_in_one_document_are_found() -> None:
    text = (
        "retry:\n  max_attempts: 4\n"
        "steps:\n"
        "  - name: a\n    work_config: {max_retries: 2}\n"
        "  - name: b\n    retry: {max_attempts: 1}\n"
        "  - name: c\n    retry: {max_attempts: 2}\n    work_config: {max_retries: 2}\n"
    )
    nested = {one.line or 0: one.text for one in lint_text(text) if one.id == "RD004"}
    assert sorted(nested) == [5, 9, 10]
    assert "4 x 3 = 12 calls" in nested[5]
    assert "4 x 2 = 8 calls" in nested[9]
    assert "4 x 2 x 3 = 24 calls" in nested[10]


def test_two_notations_beside_one_another_are_nested() -> None:
    findings = found("attempts: 3\nretry:\n  max_attempts: 3\n")
    assert "3 x 3 = 9 calls" in findings["RD004"].text


@pytest.mark.promise("T6", "T9")
def test_what_a_reader_refuses_does_not_hide_the_rest() -> None:
    findings = lint_text(
        "steps:\n  - retry:\n      retry_limit: 0\n      backoff: none\n  - retry: {max_attempts: 0}\n"
    )
    assert [(one.id, one.line) for one in findings if one.severity == "error"] == [
        ("RD006", 3),
        ("RD008", 3),
        ("RD006", 5),
    ]


def test_other_mistakes_are_no_findings() -> None:
    with pytest.raises(NotationError, match="key 'attempts'"):
        lint_text("attempts: three")


def test_a_policy_from_python_has_no_lines() -> None:
    policy = Policy(attempts=50, deadline=None, jitter=Jitter("none"), backoff=Backoff("constant", 1.0))
    assert [(one.id, one.key, one.line) for one in lint(policy)] == [
        ("RD001", "jitter", None),
        ("RD012", "attempts", None),
    ]
    assert lint(Policy()) == []


@pytest.mark.promise("P15")
def test_the_worst_case_says_which_attempts_can_never_happen() -> None:
    never = found("attempts: 5\nbackoff: linear 2s\njitter: none\ndeadline: 10s")["RD005"]
    assert "need 20s, but the deadline is 10s: attempt 4 and later ones can never happen" in never.text
    maybe = found("attempts: 3\nattempt_timeout: 20s\ndeadline: 50s")["RD005"]
    assert "only 2 of 3 are certain to happen" in maybe.text
