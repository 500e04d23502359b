"""Writes docs/script-reference.md from the grammar of scripts: `python -m tests.write_script_reference`."""

import re
from collections.abc import Iterator
from pathlib import Path

from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES
from redrive.flows.scripts.execution import (
    LARGEST_INT,
    LARGEST_KEY,
    LONGEST_TEXT,
    MOST_CALLS,
    MOST_CHARACTERS,
    MOST_ELEMENTS,
    MOST_HELD,
    MOST_PARTS,
    MOST_STEPS,
)
from redrive.flows.scripts.limits import LONGEST_RANGE, LONGEST_SCRIPT, MOST_DIGITS, MOST_LINES, MOST_NESTING
from redrive.flows.scripts.wording import KEYWORDS
from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.policy import DEFAULT_POLICY

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

Brackets of which one answers are the whole policy. Brackets that only set something, such as `[timeout: 30s]` alone,
keep the policy that the action was registered with, and change what they name: its retries stay. That is so in scripts
only; `redrive policy convert` and `lint` know no action, and say that nothing is retried.

"""
LIMITS = """\
A statement is a step, and about a microsecond. Long lines and large values count as more: 4 parts of an expression,
10 elements that are looked at or made, 100 elements that are copied, 100 characters that are compared, or 2,000 that
are copied are a step each; sorting counts the elements once for each doubling of their number, and a failure that is
caught is 10 steps. What counts too much between two waits fails with an error that no `except` of the script can go on
after. Large data is work for actions.

What a script holds at one time is counted wherever it waits meanwhile: the characters of its long texts, and 8 for each
element of its long lists and dicts. Those with less than 100 are not counted, and neither is what actions gave, so that
a worker's memory depends on its scripts all the same: drop what is no longer needed (`rows = []`).
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
    "timeout": "for one attempt; those after one that it cut get `timeout_growth` times as much",
    "deadline": "for all attempts and waits together",
    "attempts": "attempts in all, whichever bracket answers",
    "timeout_growth": f"after the first timeout, attempts get so many times `timeout`; "
    f"{DEFAULT_POLICY.timeout_growth:g} unless written",
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
    yield f"| lines of a script | {MOST_LINES:,} |"
    yield f"| blocks and expressions in one another | {MOST_NESTING} |"
    yield f"| calls of functions in one another | {MOST_CALLS} |"
    yield f"| steps between two waits for an action or a timer | {MOST_STEPS:,} |"
    yield f"| characters of a text | {LONGEST_TEXT:,} |"
    yield f"| elements of a list or a dict, and of a `spread` | {MOST_ELEMENTS:,} |"
    yield f"| numbers of a `range` | {LONGEST_RANGE:,} |"
    yield f"| bits of a whole number | {LARGEST_INT:,} |"
    yield f"| bits of a whole number that is the key of a dict, or in a `range` | {LARGEST_KEY} |"
    yield f"| digits that `round` keeps | {MOST_DIGITS:,} |"
    yield f"| values inside one another that are compared, printed or handed over | {MOST_PARTS:,} |"
    yield f"| characters of all texts in these | {MOST_CHARACTERS:,} |"
    yield f"| characters of all that a script holds at one time | {MOST_HELD:,} |"
    yield f"| a `sleep` | {LONGEST_WAIT / 86_400 / 365:g} years |"
    yield ""
    yield from LIMITS.splitlines()
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
