"""Says in words why a line of a script cannot be read, and what was probably meant."""

from collections.abc import Sequence

from redrive.expressions.hints import expression_hint, found_instead, near_word
from redrive.expressions.parser import AN_OPERATOR, Unreadable
from redrive.expressions.tokens import Token
from redrive.flows.scripts.builtins import BUILTINS
from redrive.flows.scripts.layout import KEYWORDS, STATEMENT_WORDS
from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS

END_OF_LINE = f"{AN_OPERATOR} or the end of the line"
BLOCK_WORDS = ("fn", "if", "elif", "else", "for", "while", "try", "except", "finally", "parallel")
"""Words of lines that open a block."""

_FOREIGN = {
    "def": "fn",
    "function": "fn",
    "func": "fn",
    "catch": "except",
    "throw": "raise",
    "elseif": "elif",
    "elsif": "elif",
    "switch": "if",
    "wait": "sleep",
    "unless": "if not",
    "until": "while not",
}
_UNKNOWN = ("import", "from", "class", "with", "async", "await", "lambda", "del", "global", "yield", "assert", "match")
_POLICY_KEYS = frozenset((*ANSWER_KEYS, *SETTINGS))


def word_meant(token: Token) -> str:
    """The keyword that the first word of a line is, or was meant to be; empty when it is none."""
    word = token.text
    if token.kind != "name":
        return word
    if word.lower() in STATEMENT_WORDS:
        return word.lower()
    return _FOREIGN.get(word) or near_word(word, STATEMENT_WORDS)


def policy_without_action(line: Sequence[Token]) -> Token | None:
    """A bracket that was meant as a policy, behind a call without its @."""
    for index in range(1, len(line) - 2):
        if line[index].kind == "[" and line[index - 1].kind == ")":
            key, sign = line[index + 1 : index + 3]
            if (key.text in _POLICY_KEYS and sign.kind == ":") or (key.kind == "name" and sign.kind == "->"):
                return line[index]
    return None


def problem_with(line: Sequence[Token], error: Unreadable) -> tuple[Token, str]:
    """The token to point at, and what to say about it."""
    token = line[error.index]
    if error.message:
        return token, error.message
    return (
        _misspelt_word(line, error.index)
        or _statement_hint(line, error.index, error.expected)
        or expression_hint(line, error.index, error.expected, BUILTINS)
        or (token, found_instead(token, error.expected))
    )


def _misspelt_word(line: Sequence[Token], index: int) -> tuple[Token, str] | None:
    first = line[0]
    if first.kind != "name" or index != 1 or line[1].kind in (".", "(", "=", "[", "unclosed", "glued", "stray"):
        return None
    word = first.text
    if word in _UNKNOWN:
        return first, f"scripts have no '{word}'"
    meant = word_meant(first)
    return (first, f"'{word}' is not a word of scripts; did you mean '{meant}'?") if meant else None


def _statement_hint(line: Sequence[Token], index: int, expected: str) -> tuple[Token, str] | None:
    token, before = line[index], line[index - 1] if index else None
    behind_value = AN_OPERATOR in expected
    if token.kind == "=" and behind_value:
        if line[0].kind not in BLOCK_WORDS and any(one.kind[-1:] == "=" for one in line[:index]):
            return token, "assign one name a line; a = b = ... is not supported"
        return token, "'=' gives a name its value; to compare, write '=='"
    if token.kind == "," and behind_value and line[0].kind == "name":
        return token, "assign one name a line; a, b = ... is not supported"
    if token.kind == "if" and before is not None and before.kind == "else":
        return before, "write 'elif', not 'else if'"
    if token.kind == "end" and "':'" in expected and line[0].kind in BLOCK_WORDS:
        return token, "expected ':' at the end of this line"
    if before is not None and before.kind == ")" and (told := _policy_without_brackets(line[index:])):
        return token, told
    if token.text in KEYWORDS and expected == "a name":
        return token, f"'{token.text}' is a word of the language and cannot be a name"
    return None


def _policy_without_brackets(rest: Sequence[Token]) -> str:
    """What to write instead of `(retry: 3)`, `{retry: 3}` or `retry: 3` behind a call; empty if it is none of them."""
    inside = rest[1:] if rest[0].kind in ("(", "{") else rest
    if len(inside) < 3 or inside[0].text not in _POLICY_KEYS or inside[1].kind not in (":", "="):
        return ""
    return f"a policy stands in square brackets; write [{inside[0].text}: {inside[2].text[:40]}]"
