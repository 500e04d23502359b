"""The reference describes the language as it is."""

import re

from tests.write_script_reference import BRACKET_KEYS, GRAMMAR, PAGE, reference

from redrive.flows.scripts.layout import KEYWORDS
from redrive.flows.scripts.parsing import parse
from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run python -m tests.write_script_reference"


def test_the_grammar_has_every_keyword_and_no_other() -> None:
    quoted = re.findall('"([A-Za-z]+)"', GRAMMAR.read_text(encoding="utf-8"))
    assert set(quoted) == set(KEYWORDS)


def test_every_key_of_a_bracket_is_explained_and_is_read() -> None:
    assert set(BRACKET_KEYS) == {*ANSWER_KEYS, *SETTINGS}
    values = {"jitter": "full", "never_on": "(KeyError)", "idempotent": "true", "factor": "3", "timeout_growth": "2"}
    for key in ("constant", "linear", "exponential"):
        parse(f"@f() [retry: 1, backoff: 1s, {key}]")
    for key in ("max_backoff", "jitter", "factor"):
        parse(f"@f() [retry: 1, backoff: 1s, {key}: {values.get(key, '5')}]")
    for key in SETTINGS:
        parse(f"@f() [retry: 1, backoff: 1s] [{key}: {values.get(key, '5')}]")
