"""Which notation a text is in: told by itself, never guessed."""

import subprocess
import sys

import pytest

from redrive.errors import NotationError
from redrive.notation import NOTATIONS, read_policy, write_lossy, write_policy
from redrive.notation.catalogue import WRITABLE
from redrive.policies.policy import Policy

RECOGNISED = {
    "attempts: 3": "native",
    '{"attempts": 3, "rules": []}': "native",
    "backoff: exponential 1s": "native",
    '{"max_retries": 3}': "work_config",
    '{"backoff": 100, "backoff_type": "fixed"}': "work_config",
    "retry:\n  max_attempts: 3": "template",
    "retryable: true\nmax_attempts: 3": "template",
    "[retry: 3]": "brackets",
    "  # comment\n\n[ # and one more\n retry: 3]": "brackets",
    "@call() [retry: 3]": "brackets",
    "x = @retry_later(1) [retry: 3]": "brackets",
    "max_attempts: 3\njitter_strategy: full": "stage",
    "retry_config:\n  max_attempts: 3": "stage",
    "RetryInterceptor(max_attempts=3)": "stage",
    '{"maximumAttempts": 3}': "temporal",
    "retryPolicy: {initialInterval: 1s}": "temporal",
    '[{"ErrorEquals": ["A"]}]': "step_functions",
    "- ErrorEquals: [A]": "step_functions",
    "Type: Task\nRetry:\n  - ErrorEquals: [A]": "step_functions",
    "stop: stop_after_attempt(3)": "tenacity",
    "# how we call\n@tenacity.retry(wait=wait_fixed(3))": "tenacity",
    "on: OSError": "stamina",
    "stamina.retry_context(on=OSError)": "stamina",
}


@pytest.mark.parametrize("text", RECOGNISED)
def test_each_is_told_by_itself(text: str) -> None:
    assert read_policy(text).notation == RECOGNISED[text]


@pytest.mark.parametrize(
    "text", ["max_attempts: 3", "retry_config: 3", "foo: 1", "{}", "", "~", "name: x\ntimeout: 3", "retry()"]
)
def test_what_could_be_several_or_none_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(NotationError) as refused:
        read_policy(text)
    for name in ("tenacity", "stamina") if text == "retry()" else ("native", "template", "stage"):
        assert name in refused.value.allowed


def test_data_from_python_needs_no_text() -> None:
    assert read_policy({"attempts": 4}).policy.attempts == 4
    with pytest.raises(NotationError, match="brackets is written as text"):
        read_policy({"retry": 3}, "brackets")


@pytest.mark.parametrize("notation", WRITABLE)
def test_what_is_written_is_recognised(notation: str) -> None:
    text, _ = write_lossy(Policy(attempts=5), notation)
    expected = "native" if notation == "native_json" else notation
    assert read_policy(text).notation == expected


@pytest.mark.parametrize("notation", [name for name in NOTATIONS if name not in WRITABLE])
def test_what_is_only_read_says_so(notation: str) -> None:
    with pytest.raises(NotationError, match=f"'notation', value \"{notation}\": can be read but not written"):
        write_policy(Policy(), notation)


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert read_policy("\ufeffattempts: 4").policy.attempts == 4
    assert read_policy("\ufeff[retry: 4]").notation == "brackets"


def test_importing_redrive_loads_no_parser_and_no_command_line() -> None:
    heavy = "('yaml', 'typer', 'rich', 'jsonschema', 'redrive.notation.read', 'redrive.cli')"
    program = f"import redrive, redrive.notation, sys; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert ran.stdout.strip() == "[]"
