"""Every mistake in every notation, through the command line: one line that says it all, exit code 2, no traceback."""

import json

import jsonschema
import pytest

from redrive.cli import main
from redrive.errors import NotationError
from redrive.notation import native_schema, read_policy
from redrive.notation.source import load_document

STEP = '[{{"ErrorEquals": ["A"], {}}}]'

# notation, text, the key that must be named, the value that must be shown
MALFORMED: list[tuple[str, str, str, str]] = [
    # native
    ("native", "attempts: 0", "attempts", "0"),
    ("native", "attempts: -1", "attempts", "-1"),
    ("native", "attempts: 2.5", "attempts", "2.5"),
    ("native", "attempts: true", "attempts", "true"),
    ("native", "attempts: '3'", "attempts", '"3"'),
    ("native", "attempts: null", "attempts", "null"),
    ("native", "attempts: many", "attempts", '"many"'),
    ("native", "attempts: 99999999999999999999", "attempts", "99999999999999999999"),
    ("native", "backof: exponential 1s", "backof", '"exponential 1s"'),
    ("native", "backoff: 1s", "backoff", '"1s"'),
    ("native", "backoff: exponental 1s", "backoff", '"exponental 1s"'),
    ("native", "backoff: exponential", "backoff", '"exponential"'),
    ("native", "backoff: exponential soon", "backoff", '"exponential soon"'),
    ("native", "backoff: exponential 1s x0.5", "backoff", '"exponential 1s x0.5"'),
    ("native", "backoff: exponential 1s x9999", "backoff", '"exponential 1s x9999"'),
    ("native", "backoff: linear 1s x2", "backoff", '"linear 1s x2"'),
    ("native", "backoff: {kind: cubic, base: 1s}", "backoff.kind", '"cubic"'),
    ("native", "backoff: {kind: linear}", "backoff.base", "null"),
    ("native", "backoff: {base: 1s, factor: big}", "backoff.factor", '"big"'),
    ("native", "backoff: {kind: linear, base: 1s, factor: 2}", "backoff.factor", "2"),
    ("native", "backoff: {base: 1s, speed: 2}", "backoff.speed", "2"),
    ("native", "backoff: [1, 2]", "backoff", "[1, 2]"),
    ("native", "jitter: fulll", "jitter", '"fulll"'),
    ("native", "jitter: additive", "jitter", '"additive"'),
    ("native", "jitter: additive lots", "jitter", '"additive lots"'),
    ("native", "jitter: proportional", "jitter", '"proportional"'),
    ("native", "jitter: proportional 0.1", "jitter", '"proportional 0.1"'),
    ("native", "jitter: proportional 1001%", "jitter", '"proportional 1001%"'),
    ("native", "jitter: proportional -5%", "jitter", '"proportional -5%"'),
    ("native", "jitter: {additive: lots}", "jitter.additive", '"lots"'),
    ("native", "jitter: {amount: 1s}", "jitter.amount", '"1s"'),
    ("native", "jitter: 3", "jitter", "3"),
    ("native", "max_wait: 0", "max_wait", "0"),
    ("native", "max_wait: -5s", "max_wait", '"-5s"'),
    ("native", "deadline: 0s", "deadline", '"0s"'),
    ("native", "deadline: 11y", "deadline", '"11y"'),
    ("native", "deadline: 99999d", "deadline", '"99999d"'),
    ("native", "deadline: .nan", "deadline", "NaN"),
    ("native", "deadline: .inf", "deadline", "Infinity"),
    ("native", "attempt_timeout: off", "attempt_timeout", '"off"'),
    ("native", "timeout_growth: 0.5", "timeout_growth", "0.5"),
    ("native", "timeout_growth: 11", "timeout_growth", "11"),
    ("native", "timeout_growth: fast", "timeout_growth", '"fast"'),
    ("native", "timeout_retries: -1", "timeout_retries", "-1"),
    ("native", "max_retry_after: forever", "max_retry_after", '"forever"'),
    ("native", "floor: none", "floor", '"none"'),
    ("native", "retry_on: none", "retry_on", '"none"'),
    ("native", "retry_on: {a: 1}", "retry_on", '{"a": 1}'),
    ("native", "retry_on: [status:42]", "retry_on[0]", '"status:42"'),
    ("native", "retry_on: [99]", "retry_on[0]", "99"),
    ("native", "retry_on: [true]", "retry_on[0]", "true"),
    ("native", "retry_on: [[A]]", "retry_on[0]", '["A"]'),
    ("native", "never_on: not a name", "never_on", '"not a name"'),
    ("native", "idempotent: perhaps", "idempotent", '"perhaps"'),
    ("native", "rules: 3", "rules", "3"),
    ("native", "rules: [3]", "rules[0]", "3"),
    ("native", "rules: [{retries: 3}]", "rules[0].match", "null"),
    ("native", "rules: [{match: []}]", "rules[0].match", "[]"),
    ("native", "rules: [{match: A, retries: -1}]", "rules[0].retries", "-1"),
    ("native", "rules: [{match: A}, {match: B, retry: 1}]", "rules[1].retry", "1"),
    ("native", "rules: [{match: A, max_wait: none}]", "rules[0].max_wait", '"none"'),
    ("native", "- attempts", "policy", '["attempts"]'),
    ("native", "just words", "policy", '"just words"'),
    ("native", "attempts: 3\nattempts: 4", "attempts", "4"),
    ("native", json.dumps({"rules": [{"match": "A"}] * 101}), "rules", "101 rules"),
    # work_config
    ("work_config", '{"max_retries": -2}', "max_retries", "-2"),
    ("work_config", '{"max_retries": 3.0}', "max_retries", "3.0"),
    ("work_config", '{"max_retries": "3"}', "max_retries", '"3"'),
    ("work_config", '{"max_retries": true}', "max_retries", "true"),
    ("work_config", '{"backoff": -1}', "backoff", "-1"),
    ("work_config", '{"backoff": "1s"}', "backoff", '"1s"'),
    ("work_config", '{"max_backoff": 0}', "max_backoff", "0"),
    ("work_config", '{"backoff_type": "quadratic"}', "backoff_type", '"quadratic"'),
    ("work_config", '{"backoff_type": 3}', "backoff_type", "3"),
    ("work_config", '{"max_retries": 3, "parallelism": 4}', "parallelism", "4"),
    ("work_config", "[1]", "policy", "[1]"),
    # template
    ("template", "retry: {max_attempts: 0}", "retry.max_attempts", "0"),
    ("template", "retry: {retry_limit: 3}", "retry.retry_limit", "3"),
    ("template", "retry: {retryable: maybe}", "retry.retryable", '"maybe"'),
    ("template", "retry: {max_attempts: three}", "retry.max_attempts", '"three"'),
    ("template", "retry: {backoff: random}", "retry.backoff", '"random"'),
    ("template", "retry: {backoff_base_ms: 1s}", "retry.backoff_base_ms", '"1s"'),
    ("template", "retry: {max_backoff_ms: 0}", "retry.max_backoff_ms", "0"),
    ("template", "retry: {max_attempt: 3}", "retry.max_attempt", "3"),
    ("template", "retry: 3", "retry", "3"),
    # brackets
    ("brackets", "[retry: three]", "brackets[0].retry", '"three"'),
    ("brackets", "[retry: -2]", "brackets[0].retry", "-2"),
    ("brackets", "[retry: 1.5]", "brackets[0].retry", "1.5"),
    ("brackets", "[retry: ]", "brackets[0].retry", "']'"),
    ("brackets", "[retry: 3, retry: 4]", "brackets[0].retry", "4"),
    ("brackets", "[backoff: 3s]", "brackets[0].retry", "null"),
    ("brackets", "[retry: 3, backoff: soon]", "brackets[0].backoff", '"soon"'),
    ("brackets", "[retry: 3, bakoff: 3s]", "brackets[0].bakoff", '"3s"'),
    ("brackets", "[retry: 3, jitter: some]", "brackets[0].jitter", '"some"'),
    ("brackets", "[retry: 3, factor: 0]", "brackets[0].factor", "0"),
    ("brackets", "[retry: 3, linear, constant]", "brackets[0].constant", "true"),
    ("brackets", "[retry: 3, linear, factor: 2]", "brackets[0].factor", "2"),
    ("brackets", "[retry: 3, max_backoff: 0s]", "brackets[0].max_backoff", '"0s"'),
    ("brackets", "[retry: 3, timeout: 2m]", "brackets[0].timeout", '"2m"'),
    ("brackets", "[timeout: 2m] [timeout: 3m]", "brackets[1].timeout", '"3m"'),
    ("brackets", "[timeout: soon]", "brackets[0].timeout", '"soon"'),
    ("brackets", "[timeout: 0]", "brackets[0].timeout", "0"),
    ("brackets", "[retry: 3] [attempts: 0]", "brackets[1].attempts", "0"),
    ("brackets", "[() -> retry: 3]", "brackets[0].failures", "[]"),
    ("brackets", "[(A, 3x) -> retry: 3]", "brackets[0].failures[1]", '"3x"'),
    ("brackets", "[status:42 -> retry: 3]", "brackets[0].failures[0]", '"status:42"'),
    ("brackets", "[retry: 3] [idempotent: no]", "brackets[1].idempotent", '"no"'),
    # stage
    ("stage", "max_attempts: 0", "max_attempts", "0"),
    ("stage", "max_attempts: 3.0", "max_attempts", "3.0"),
    ("stage", "base_delay_ms: fast", "base_delay_ms", '"fast"'),
    ("stage", "max_delay_ms: 0", "max_delay_ms", "0"),
    ("stage", "backoff_strategy: cubic", "backoff_strategy", '"cubic"'),
    ("stage", "jitter_strategy: additive", "jitter_strategy", '"additive"'),
    ("stage", "retryable_errors: [3x]", "retryable_errors[0]", '"3x"'),
    ("stage", "RetryInterceptor(max_attempt=3)", "max_attempt", "3"),
    ("stage", "RetryInterceptor(max_attempts=None)", "max_attempts", "null"),
    # temporal
    ("temporal", '{"maximumAttempts": -1}', "maximumAttempts", "-1"),
    ("temporal", '{"initialInterval": "soon"}', "initialInterval", '"soon"'),
    ("temporal", '{"backoffCoefficient": 0.5}', "backoffCoefficient", "0.5"),
    ("temporal", '{"initialInterval": "10s", "maximumInterval": "5s"}', "maximumInterval", '"5s"'),
    ("temporal", '{"nonRetryableErrorTypes": [3]}', "nonRetryableErrorTypes[0]", "3"),
    ("temporal", '{"maximumAttempt": 3}', "maximumAttempt", "3"),
    ("temporal", '{"initialInterval": "1s", "maximum_attempts": 3}', "initialInterval", '"1s"'),
    # step_functions
    ("step_functions", "[]", "policy", "[]"),
    ("step_functions", '{"ErrorEquals": ["A"]}', "policy", '{"ErrorEquals": ["A"]}'),
    ("step_functions", "[3]", "[0]", "3"),
    ("step_functions", '[{"MaxAttempts": 3}]', "[0].ErrorEquals", "null"),
    ("step_functions", '[{"ErrorEquals": []}]', "[0].ErrorEquals", "[]"),
    ("step_functions", '[{"ErrorEquals": "A"}]', "[0].ErrorEquals", '"A"'),
    ("step_functions", '[{"ErrorEquals": ["a b"]}]', "[0].ErrorEquals[0]", '"a b"'),
    ("step_functions", '[{"ErrorEquals": ["States.ALL", "A"]}]', "[0].ErrorEquals", '["States.ALL", "A"]'),
    ("step_functions", STEP.format('"IntervalSeconds": 0'), "[0].IntervalSeconds", "0"),
    ("step_functions", STEP.format('"IntervalSeconds": 1.5'), "[0].IntervalSeconds", "1.5"),
    ("step_functions", STEP.format('"MaxAttempts": -1'), "[0].MaxAttempts", "-1"),
    ("step_functions", STEP.format('"BackoffRate": 0.5'), "[0].BackoffRate", "0.5"),
    ("step_functions", STEP.format('"MaxDelaySeconds": 0'), "[0].MaxDelaySeconds", "0"),
    ("step_functions", STEP.format('"JitterStrategy": "HALF"'), "[0].JitterStrategy", '"HALF"'),
    ("step_functions", STEP.format('"Interval": 3'), "[0].Interval", "3"),
    # tenacity
    ("tenacity", "stop: stop_after_attempt(0)", "stop", "stop_after_attempt(0)"),
    ("tenacity", "stop: stop_after_attempt(x)", "stop", "stop_after_attempt(x)"),
    ("tenacity", "stop: stop_after_attempt(1, 2)", "stop", "stop_after_attempt(1, 2)"),
    ("tenacity", "stop: stop_after_delay(-1)", "stop", "stop_after_delay(-1)"),
    ("tenacity", "stop: stop_after_lunch()", "stop", "stop_after_lunch()"),
    ("tenacity", "stop: 3", "stop", "3"),
    ("tenacity", "stop: stop_after_attempt(3", "stop", "stop_after_attempt(3"),
    ("tenacity", "wait: wait_fixed()", "wait", "wait_fixed()"),
    ("tenacity", "wait: wait_fixed(hours=3)", "wait", "wait_fixed(hours=3)"),
    ("tenacity", "wait: wait_exponential(exp_base=0.5)", "wait", "wait_exponential(exp_base=0.5)"),
    ("tenacity", "wait: wait_a_bit()", "wait", "wait_a_bit()"),
    ("tenacity", "retry: retry_if_exception_type(())", "retry", "retry_if_exception_type(())"),
    ("tenacity", "retry: retry_if_exception_type(3)", "retry", "3"),
    ("tenacity", "retry: retry_if_result(f)", "retry", "retry_if_result(f)"),
    ("tenacity", "reraise: maybe", "reraise", '"maybe"'),
    ("tenacity", "retry(stop=stop_after_attempt(3), limit=4)", "limit", "4"),
    # stamina
    ("stamina", "attempts: 3", "on", "null"),
    ("stamina", "on: should_retry", "on", '"should_retry"'),
    ("stamina", "on: [3]", "on[0]", "3"),
    ("stamina", "on: []", "on", "[]"),
    ("stamina", "on: A\nattempts: 0", "attempts", "0"),
    ("stamina", "on: A\nattempts: 1.5", "attempts", "1.5"),
    ("stamina", "on: A\ntimeout: 0", "timeout", "0"),
    ("stamina", "on: A\nwait_initial: -1", "wait_initial", "-1"),
    ("stamina", "on: A\nwait_max: 0", "wait_max", "0"),
    ("stamina", "on: A\nwait_jitter: some", "wait_jitter", '"some"'),
    ("stamina", "on: A\nwait_exp_base: 0.5", "wait_exp_base", "0.5"),
    ("stamina", "on: A\ntries: 3", "tries", "3"),
    ("stamina", "stamina.retry(on=A, tries=3)", "tries", "3"),
]

# Texts no notation can make sense of: there may be no key to name, but the line, what is wrong and what is allowed.
UNREADABLE: list[tuple[str, str]] = [
    ("auto", "foo: 3"),
    ("auto", "{}"),
    ("auto", "3"),
    ("auto", "[]"),
    ("auto", "max_attempts: 3"),
    ("auto", "retry()"),
    ("auto", "frobnicate(a=3)"),
    ("auto", "a: [1"),
    ("auto", '{"a": }'),
    ("auto", "a: &b 1"),
    ("auto", "\t- x"),
    ("auto", "attempts: 3\nretry: {max_attempts: 3}"),
    ("auto", "[retry: 3"),
    ("auto", "[retry 3]"),
    ("auto", "[A -> B -> retry: 3]"),
    ("auto", "x = @call( [retry: 3]"),
    ("auto", "[retry: 3] and more"),
    ("brackets", "attempts: 3"),
    ("tenacity", "retry(3)"),
    ("tenacity", "retry(stop=stop_after_attempt(3)) + 1"),
    ("stamina", "stamina.retry(on=A, on=B)"),
    ("stamina", "stamina.retry(on=lambda error: True)"),
    ("nonsense", "attempts: 3"),
]


def one_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line a command says on stderr when it cannot read its input."""
    assert main(["policy", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("\n")
    lines = said.err.splitlines()
    assert len(lines) == 1, said.err
    assert "Traceback" not in said.err
    assert "allowed: " in said.err
    return lines[0]


@pytest.mark.promise("A7", "T6", "T9")
@pytest.mark.parametrize(("notation", "text", "key", "value"), MALFORMED)
def test_the_line_names_the_key_the_value_and_what_is_allowed(
    notation: str, text: str, key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = one_line(capsys, "preview", "--from", notation, "--text", text)
    assert line.startswith("<text>")
    assert f"key '{key}'" in line
    assert value in line
    assert one_line(capsys, "convert", "--json", "--from", notation, "--text", text) == line


@pytest.mark.parametrize(("notation", "text"), UNREADABLE)
def test_what_cannot_be_read_at_all_is_one_line_too(
    notation: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one_line(capsys, "preview", "--from", notation, "--text", text)
    one_line(capsys, "convert", "--from", notation, "--text", text)


@pytest.mark.parametrize(("notation", "text", "key", "value"), MALFORMED)
def test_the_linter_refuses_the_same_unless_it_has_a_rule_for_it(
    notation: str, text: str, key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["policy", "lint", "--from", notation, "--text", text])
    said = capsys.readouterr()
    if code == 1:
        assert "RD006 error" in said.out or "RD008 error" in said.out
    else:
        assert code == 2
        assert len(said.err.splitlines()) == 1
        assert f"key '{key}'" in said.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("attempts: 3\n# a comment\nbackof: linear 1s\n", 3),
        ('{\n  "attempts": 3,\n  "deadline": "soon"\n}', 3),
        ("attempts: 3\nrules:\n  - match: A\n    retries: 2\n  - match: B\n    retries: -3\n", 6),
        ("retry:\n  max_attempts: 3\n  backoff: odd\n", 3),
        ("@retry(\n  stop=stop_after_attempt(3),\n  wait=wait_odd(),\n)", 3),
        ("[A -> retry: 3]\n\n[B -> retry: 3,\n backoff: odd]", 4),
    ],
)
def test_the_line_is_the_one_the_mistake_is_on(text: str, line: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line(capsys, "preview", "--text", text).startswith(f"<text>:{line}: ")


def test_a_close_miss_is_met_with_a_proposal(capsys: pytest.CaptureFixture[str]) -> None:
    line = one_line(capsys, "preview", "--text", "attempts: 3\nbackof: linear 1s")
    assert "unknown; did you mean 'backoff'? allowed: attempts, backoff, jitter" in line


def test_what_is_shown_cannot_drive_a_terminal_or_flood_it(capsys: pytest.CaptureFixture[str]) -> None:
    line = one_line(
        capsys, "preview", "--from", "native", "--text", '{"attempts": "\\u001b[2J\\n\\u2028' + "x" * 9999 + '"}'
    )
    assert line.isprintable()
    assert len(line) < 300


def test_what_native_refuses_its_schema_refuses() -> None:
    """But for what a schema cannot say: that a text names too long a time."""
    validator = jsonschema.Draft202012Validator(native_schema())
    texts = [text for notation, text, *_ in MALFORMED if notation == "native" and "attempts: 4" not in text]
    assert [text for text in texts if validator.is_valid(load_document(text).data)] == [
        "deadline: 99999d",
        "deadline: .nan",
    ]


@pytest.mark.promise("P11")
def test_a_credential_written_by_mistake_is_not_repeated() -> None:
    for text in ("attempts: 3\npassword: hunter2", '{"attempts": "Bearer hunter2hunter2"}'):
        with pytest.raises(NotationError) as caught:
            read_policy(text, "native")
        assert "hunter2" not in str(caught.value)
