"""Writes docs/script-reference.md from the grammar of scripts: `python -m tests.write_script_reference`."""

import re
from collections.abc import Iterator
from pathlib import Path

from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES
from redrive.flows.scripts.execution import LONGEST_TEXT, MOST_CALLS, MOST_ELEMENTS, MOST_STEPS
from redrive.flows.scripts.limits import LONGEST_SCRIPT, MOST_NESTING
from redrive.flows.scripts.wording import KEYWORDS
from redrive.notation.brackets import ANSWER_KEYS, SETTINGS

ROOT = Path(__file__).parents[1]
GRAMMAR = ROOT / "src" / "redrive" / "flows" / "scripts" / "grammar.lark"
PAGE = ROOT / "docs" / "script-reference.md"

INTRODUCTION = """\
# Reference of the script language

[Scripts in ten minutes](scripts.md) shows the language at work; this page is made from its grammar, by
`python -m tests.write_script_reference`. In the rules, `[ ]` is what may be left out, `*` any number, `+` at least one,
`|` a choice, and words in quotes stand for themselves.
"""
BRACKETS = """\
## Brackets

A bracket with `retry` answers the failures before its arrow, or all of them: `[NetworkError -> retry: 5]`,
`[(ValueError, status:5xx) -> retry: 3]`, `[retry: 3]`. The first that matches a failure answers it, with a counter of
its own. Durations are seconds or `500ms`, `30s`, `2m`, `1h`, `1h30m`. Values are written out: a bracket has no
variables, so that a policy can be read, checked and explained without running anything.

"""
BRACKET_KEYS = {
    "retry": "retries after the first attempt; -1: no limit",
    "backoff": "the wait before the first retry",
    "max_backoff": "no wait is longer",
    "jitter": "none, full, equal, decorrelated, or additive with a duration",
    "factor": "each wait is so many times the one before; 2 unless written",
    "constant": "every wait is the same",
    "linear": "each wait is longer by the first one",
    "exponential": "each wait is `factor` times the one before: so it is when nothing is written",
    "timeout": "for one attempt",
    "deadline": "for all attempts and waits together",
    "attempts": "attempts in all, whichever bracket answers",
    "timeout_growth": "after the first timeout, attempts get so many times `timeout`",
    "timeout_retries": "retries of attempts that the timeout cut",
    "max_retry_after": "the longest Retry-After that is obeyed; none: any",
    "floor": "what a wait of zero is lifted to",
    "never_on": "failures that are never retried",
    "idempotent": "false: doing it twice does harm",
}


def reference() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from INTRODUCTION.splitlines()
    yield from _grammar()
    yield ""
    yield f"Words that cannot be names: {', '.join(f'`{word}`' for word in KEYWORDS)}."
    yield ""
    yield from BRACKETS.splitlines()
    yield "| in a bracket that answers | |"
    yield "|---|---|"
    yield from (f"| `{key}` | {BRACKET_KEYS[key]} |" for key in ANSWER_KEYS)
    yield ""
    yield "| in a bracket of its own | |"
    yield "|---|---|"
    yield from (f"| `{key}` | {BRACKET_KEYS[key]} |" for key in SETTINGS)
    yield ""
    yield "## Failures"
    yield ""
    attributes = ", ".join(f"`.{name}`" for name in ERROR_ATTRIBUTES)
    yield f"A failure that was caught `as` a name has {attributes}."
    yield "`raise` takes the names of Python's exceptions, and `Permanent` for what no policy should retry."
    yield ""
    yield "## Limits"
    yield ""
    yield "| | at most |"
    yield "|---|---|"
    yield f"| characters of a script | {LONGEST_SCRIPT:,} |"
    yield f"| blocks and expressions in one another | {MOST_NESTING} |"
    yield f"| calls of functions in one another | {MOST_CALLS} |"
    yield f"| statements between two waits for an action or a timer | {MOST_STEPS:,} |"
    yield f"| characters of a text | {LONGEST_TEXT:,} |"
    yield f"| elements of a list or a dict | {MOST_ELEMENTS:,} |"
    yield ""
    yield "## Builtins"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| `{one.usage(name)}` | {one.about} |" for name, one in BUILTINS.items())


def _grammar() -> Iterator[str]:
    """The comments of the grammar as text, and its rules between them, up to what only the parser needs."""
    text = GRAMMAR.read_text(encoding="utf-8").partition("// The rest")[0]
    for part in re.split(r"\n\n+", text.strip()):
        yield ""
        if not part.startswith("//"):
            yield from ("```text", *_rules(part), "```")
            continue
        for line in part.splitlines():
            said = line.removeprefix("//").strip()
            yield f"#{said}" if said.startswith("# ") else said


def _rules(part: str) -> Iterator[str]:
    for line in part.splitlines():
        line = re.sub(r" -> \w+$", "", line)
        line = re.sub(r"^[?!]?_?(\w+)(\.-?\d+)?:", r"\1:", line)
        if not line[:1].isupper():
            # An underscore before a name says something to the parser only.
            line = re.sub(r"(?<![\w\"])_(\w)", r"\1", line)
        yield f"    {line.strip()}" if line.startswith(" ") else line


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
