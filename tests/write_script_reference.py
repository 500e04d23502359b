"""Writes docs/script-reference.md: `python -m tests.write_script_reference`."""

from collections.abc import Iterator
from pathlib import Path

from redrive.expressions.limits import (
    LARGEST_INT,
    LARGEST_KEY,
    LARGEST_VALUE,
    LONGEST_RANGE,
    LONGEST_TEXT,
    MOST_DIGITS,
    MOST_ELEMENTS,
    MOST_HELD,
    MOST_STEPS,
)
from redrive.expressions.parser import MOST_NESTING
from redrive.expressions.tokens import PATTERNS
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.error_values import ERROR_ATTRIBUTES
from redrive.flows.scripts.execution import MOST_CALLS
from redrive.flows.scripts.layout import KEYWORDS
from redrive.flows.scripts.parsing import LONGEST_SCRIPT, MOST_LINES
from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS
from redrive.policies.backoff import LONGEST_WAIT
from redrive.policies.policy import DEFAULT_POLICY

ROOT = Path(__file__).parents[1]
GRAMMAR = ROOT / "tests" / "script_grammar.md"
PAGE = ROOT / "docs" / "script-reference.md"

INTRODUCTION = """\
# Script language reference

[Scripts in ten minutes](scripts.md) shows the language at work. In the rules of this page, `[ ]` is optional, `*` means
any number, `+` at least one, `|` is a choice, and text in quotes stands for itself.
"""
BRACKETS = """\
## Brackets

A bracket with `retry` answers the failures before its arrow, or all of them: `[NetworkError -> retry: 5]`,
`[(ValueError, status:5xx) -> retry: 3]`, `[retry: 3]`. The first bracket that matches a failure answers it, with its
own counter. Durations are seconds or `500ms`, `30s`, `2m`, `1h`, `1h30m`. Brackets contain no variables, so that a
policy can be read, checked and explained without running anything.

If at least one bracket has `retry`, the brackets are the whole policy. Brackets that only change settings, such as
`[timeout: 30s]` alone, keep the action's own policy with its retries, and change what they name. That applies to
scripts only: `redrive policy convert` knows no action, and warns that nothing is retried.

"""
LIMITS = """\
A statement is a step, and takes about a microsecond. Long expressions and large values count as more: 10 parts of an
expression, 1,000 characters of a text, or 10 elements of a list or dict are a step, each time they are looked at or
copied; sorting and printing count several times, and a failure that is caught counts as 10. A script that runs out of
steps fails, and none of its handlers can resume it. Leave large data to actions.

What a script holds is counted when values are made: the characters of texts, and 8 for each element of a list or dict.
Values below 100 are not counted. When the count reaches the limit, what the variables still reach is counted anew: drop
what is no longer needed (`rows = []`).
"""
BRACKET_KEYS = {
    "retry": "retries after the first attempt; -1 is unlimited",
    "backoff": "the wait before the first retry",
    "max_backoff": "the longest wait",
    "jitter": "none, full, equal, decorrelated, additive with a duration, or proportional with a percentage",
    "factor": "multiplies each wait; 2 by default",
    "constant": "every wait is the same",
    "linear": "each wait is longer than the one before by the first wait",
    "exponential": "each wait is `factor` times the one before; the default",
    "timeout": "per attempt; after a timeout, the next attempts get `timeout_growth` times as much",
    "deadline": "for all attempts and waits together",
    "attempts": "total attempts, whichever bracket answers",
    "timeout_growth": f"multiplies `timeout` after the first timeout; {DEFAULT_POLICY.timeout_growth:g} by default",
    "timeout_retries": "retries of attempts that timed out",
    "max_retry_after": "the longest Retry-After that is obeyed; `none` obeys any",
    "floor": "the shortest wait",
    "never_on": "failures that are never retried",
    "idempotent": "`false`: must not be repeated",
}


def reference() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from INTRODUCTION.splitlines()
    yield ""
    yield from GRAMMAR.read_text(encoding="utf-8").splitlines()
    yield ""
    yield from _tokens()
    yield ""
    yield f"Words that cannot be names: {', '.join(f'`{word}`' for word in KEYWORDS)}."
    yield ""
    yield from BRACKETS.splitlines()
    yield "| in a bracket with `retry` | |"
    yield "|---|---|"
    yield from (f"| `{key}` | {BRACKET_KEYS[key]} |" for key in ANSWER_KEYS)
    yield ""
    yield "| in a bracket of settings | |"
    yield "|---|---|"
    yield from (f"| `{key}` | {BRACKET_KEYS[key]} |" for key in SETTINGS)
    yield ""
    yield "## Failures"
    yield ""
    attributes = ", ".join(f"`.{name}`" for name in ERROR_ATTRIBUTES)
    yield f"A failure caught `as` a name has {attributes}."
    yield "`raise` takes the names of Python's exceptions, and `Permanent` for a failure that no policy retries."
    yield ""
    yield "## Limits"
    yield ""
    yield "| | at most |"
    yield "|---|---|"
    yield f"| characters of a script | {LONGEST_SCRIPT:,} |"
    yield f"| lines of a script | {MOST_LINES:,} |"
    yield f"| nested blocks and expressions | {MOST_NESTING} |"
    yield f"| nested calls of functions | {MOST_CALLS} |"
    yield f"| steps between two waits for an action or a timer | {MOST_STEPS:,} |"
    yield f"| characters of a text | {LONGEST_TEXT:,} |"
    yield f"| elements of a list or a dict, and of a `spread` | {MOST_ELEMENTS:,} |"
    yield f"| numbers of a `range` | {LONGEST_RANGE:,} |"
    yield f"| bits of a whole number | {LARGEST_INT:,} |"
    yield f"| bits of a whole number that is a key of a dict, or in a `range` | {LARGEST_KEY} |"
    yield f"| digits that `round` keeps | {MOST_DIGITS:,} |"
    yield f"| characters of a value that is compared, printed or handed over, all together | {LARGEST_VALUE:,} |"
    yield f"| characters of everything that a script holds at one time | {MOST_HELD:,} |"
    yield f"| a `sleep` | {LONGEST_WAIT / 86_400 / 365:g} years |"
    yield ""
    yield from LIMITS.splitlines()
    yield ""
    yield "## Builtins"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| `{one.usage(name)}` | {one.about} |" for name, one in BUILTINS.items())


def _tokens() -> Iterator[str]:
    yield "```text"
    for kind in ("name", "number", "duration", "string", "comment"):
        yield f"{kind.upper()}: /{PATTERNS[kind]}/"
    yield 'AUGMENTED: "+=" | "-=" | "*=" | "//=" | "/=" | "%=" | "**="'
    yield "```"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
