"""The reference is that of the language as it is."""

from lark import Lark
from tests.write_script_reference import BRACKET_KEYS, PAGE, reference

from redrive.flows.scripts.parsing import grammar, parse
from redrive.flows.scripts.wording import KEYWORDS
from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS


def test_the_page_is_in_step_with_the_grammar() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run python -m tests.write_script_reference"


def test_every_word_of_the_grammar_is_listed_and_no_other() -> None:
    assert isinstance(grammar(), Lark)
    written = {one.pattern.value for one in grammar().terminals if one.pattern.type == "str"}
    assert {word for word in written if word.isidentifier()} == set(KEYWORDS)


def test_every_key_of_a_bracket_is_explained_and_is_read() -> None:
    assert set(BRACKET_KEYS) == {*ANSWER_KEYS, *SETTINGS}
    values = {"jitter": "full", "never_on": "(KeyError)", "idempotent": "true", "factor": "3", "timeout_growth": "2"}
    for key in ("constant", "linear", "exponential"):
        parse(f"@f() [retry: 1, backoff: 1s, {key}]")
    for key in ("max_backoff", "jitter", "factor"):
        parse(f"@f() [retry: 1, backoff: 1s, {key}: {values.get(key, '5')}]")
    for key in SETTINGS:
        parse(f"@f() [retry: 1, backoff: 1s] [{key}: {values.get(key, '5')}]")
