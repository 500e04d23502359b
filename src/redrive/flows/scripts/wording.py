"""Syntax errors in words: what was found, what was expected, and what was probably meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from redrive.notation.formats.brackets import ANSWER_KEYS, SETTINGS

if TYPE_CHECKING:
    from lark import Lark, Token

KEYWORDS = (
    *("fn", "return", "if", "elif", "else", "for", "while", "break", "continue", "pass", "try", "except", "finally"),
    *("raise", "parallel", "spread", "sleep", "in", "is", "not", "and", "or", "as", "True", "False", "None"),
)
"""Words that cannot be names."""
POLICY_KEYS = frozenset((*ANSWER_KEYS, *SETTINGS))
NO_ACTION = "only the call of an action has a policy; write @ before its name"
BEGIN_LINES = KEYWORDS[: KEYWORDS.index("in")]

_FOREIGN = {"def": "fn", "function": "fn", "func": "fn", "catch": "except", "throw": "raise", "elseif": "elif"}
_FOREIGN |= {"elsif": "elif", "switch": "if", "wait": "sleep", "unless": "if not", "until": "while not"}
_UNKNOWN = ("import", "from", "class", "with", "async", "await", "lambda", "del", "global", "yield", "assert", "match")
_VALUES = frozenset(
    (
        *("NUMBER", "STRING", "DURATION", "NAME", "TRUE", "FALSE", "NONE", "LPAR", "LSQB", "LBRACE", "AT"),
        *("MINUS", "PLUS", "NOT"),
    )
)
_OPERATORS = frozenset(
    ("PLUS", "MINUS", "PRODUCT_OPERATOR", "POWER", "LESSTHAN", "MORETHAN", "IN", "IS", "NOT", "AND", "OR", "IF", "LSQB")
)
_CLOSING = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}
_IN_WORDS = {"_NEWLINE": "the end of the line", "NAME": "a name", "AUGMENTED": "'='"}
_MARKS = {
    "!": "write 'not'",
    "&": "write 'and'",
    "|": "write 'or'",
    ";": "one statement a line",
    "\\": "a line goes on inside brackets only, put ( ) around it",
}


def word_meant(token: "Token") -> str:
    """The keyword that the first word of a line is, or was meant to be."""
    word = str(token)
    if token.type != "NAME":
        return word
    return _FOREIGN.get(word) or (word.lower() if word.lower() in BEGIN_LINES else _near(word, BEGIN_LINES))


def describe(token: "Token") -> str:
    if token.type in ("_NEWLINE", "_END"):
        return "the end of the line"
    if token.type == "POLICY":
        return "a policy"
    shown = str(token)
    return f"'{shown if len(shown) <= 40 else shown[:37] + '...'}'"


def problem_with(grammar: "Lark", line: "Sequence[Token]", at: int, accepted: Iterable[str]) -> "tuple[Token, str]":
    """The token to point at and what to say, for a line whose token `at` cannot stand there."""
    token, before = line[at], line[at - 1] if at else None
    expected = set(accepted)
    return (
        _of_no_kind(token)
        or _misspelt_word(line, at)
        or _usual_slip(line, at, token, before, expected)
        or (token, f"found {describe(token)}, expected {_in_words(grammar, expected)}")
    )


def _of_no_kind(token: "Token") -> "tuple[Token, str] | None":
    if token.type == "UNCLOSED":
        return token, f"this string has no closing {token[0]}; a string ends on its line, write \\n for a line break"
    if token.type == "GLUED":
        return token, f"'{token[:40]}' is neither a number nor a duration such as 30s, 2m or 1h30m"
    if token.type == "STRAY":
        meant = _MARKS.get(str(token))
        return token, f"'{token}' means nothing here{f'; {meant}' if meant else ''}"
    return None


def _misspelt_word(line: "Sequence[Token]", at: int) -> "tuple[Token, str] | None":
    """The first word of a line was meant to be a keyword."""
    first = line[0]
    if first.type != "NAME" or at != 1 or line[1].type in ("DOT", "LPAR", "EQUAL", "LSQB"):
        return None
    word = str(first)
    if word in _UNKNOWN:
        return first, f"scripts have no '{word}'"
    meant = word_meant(first)
    return (first, f"'{word}' is not a word of scripts; did you mean '{meant}'?") if meant else None


def _usual_slip(
    line: "Sequence[Token]", at: int, token: "Token", before: "Token | None", expected: set[str]
) -> "tuple[Token, str] | None":
    kind = token.type
    if (opening := _policy_of_no_action(line, at)) is not None:
        return opening, NO_ACTION
    if kind == "FOR" and "AND" in expected:
        return token, "scripts have no comprehensions; write a 'for' on lines of its own"
    if kind == "EQUAL" and "LESSTHAN" in expected:
        if line[0].type not in _HEADERS and any(one.type in ("EQUAL", "AUGMENTED") for one in line[:at]):
            return token, "one name a line: a = b = ... is not known here"
        return token, "'=' gives a name its value; to compare, write '=='"
    if kind == "IF" and before is not None and before.type == "ELSE":
        return before, "write 'elif', not 'else if'"
    if kind in ("_NEWLINE", "_END") and "COLON" in expected and line[0].type in _HEADERS:
        return token, "expected ':' at the end of this line"
    if before is not None and before.type == "COLON" and expected == {"_NEWLINE"}:
        return token, "a block begins on a line of its own, indented"
    if kind == "LPAR" and at > 2 and line[at - 2].type == "DOT" and (said := _method(line, at - 2)):
        return line[at - 2], said
    if kind == "DOT" and at and (said := _method(line, at)):
        return token, said
    if expected == {"NAME", "RPAR"} and before is not None and before.type in ("LPAR", "COMMA"):
        if line[0].type == "FN":
            return token, f"a parameter is a name, with a default or without: fn {line[1]}(a, b=1)"
        return token, "arguments of an action have names: @action(name=value)"
    if kind == "DOT":
        return token, 'only a failure that was caught with "as" has attributes; for a dict write ["name"]'
    if kind == "STRING" and before is not None and before.type == "NAME" and before.end_pos == token.start_pos:
        return before, f"strings have no prefix '{before}'; write \"...\" + str(value)"
    if kind == "COMMA" and "EQUAL" in expected:
        return token, "one name a line: a, b = ... is not known here"
    if kind.isupper() and str(token) in KEYWORDS and "NAME" in expected and not expected & {"NUMBER"}:
        return token, f"'{token}' is a word of the language and cannot be a name"
    if kind == "NAME" and (meant := _near(str(token), _words(expected))):
        return token, f"'{token}' cannot stand here; did you mean '{meant}'?"
    return None


def _method(line: "Sequence[Token]", dot: int) -> str:
    """What to say to `value.method(...)`; empty where it is none."""
    from redrive.flows.scripts.builtins import BUILTINS

    if [one.type for one in line[dot + 1 : dot + 3]] != ["NAME", "LPAR"]:
        return ""
    method, value, given = str(line[dot + 1]), _shown(line[dot - 1], "value"), ""
    if len(line) > dot + 4 and line[dot + 4].type == "RPAR":
        given = _shown(line[dot + 3], "")
    instead = ""
    if method == "append":
        instead = f"{value} += [{given or 'element'}]"
    elif method == "extend":
        instead = f"{value} += {given or 'elements'}"
    elif method in BUILTINS:
        empty = line[dot + 3].type == "RPAR"
        instead = f"{method}({value})" if empty else f"{method}({value}, {given or '...'})"
    return f"values have no methods; write {instead}" if instead else "values have no methods"


def _shown(token: "Token", otherwise: str) -> str:
    """What a token says, when it stands for a value by itself and is short."""
    return str(token) if token.type in ("NAME", "STRING", "NUMBER") and len(token) <= 40 else otherwise


_HEADERS = frozenset(("FN", "IF", "ELIF", "ELSE", "FOR", "WHILE", "TRY", "EXCEPT", "FINALLY", "PARALLEL"))


def _policy_of_no_action(line: "Sequence[Token]", at: int) -> "Token | None":
    """The bracket that was meant as a policy, behind a call without its @."""
    for index in range(at - 1, 1, -1):
        if line[index].type == "LSQB":
            # What stands in an index, and in a policy, before the first sign that only a policy has.
            is_policy = str(line[at]) == "->" or str(line[index + 1]) in POLICY_KEYS
            return line[index] if is_policy and line[index - 1].type == "RPAR" else None
    return None


def _words(expected: set[str]) -> tuple[str, ...]:
    return tuple(word for word in KEYWORDS if word.upper() in expected)


def _near(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word.lower()[:64], known, n=1, cutoff=0.7)
    return close[0] if close else ""


def _in_words(grammar: "Lark", expected: set[str]) -> str:
    """At most a handful of things, the likely ones first."""
    left = set(expected)
    said: list[str] = [f"'{sign}'" for kind, sign in _CLOSING.items() if kind in left]
    left -= set(_CLOSING)
    if {"NUMBER", "NAME", "LPAR"} <= left:
        said.append("a value")
        left -= _VALUES
    if {"PLUS", "AND"} <= left:
        left -= {kind for kind in left if kind in _OPERATORS or kind.startswith("__ANON")}
        last = ["an operator"]
    else:
        last = []
    known = {terminal.name: terminal.pattern.value for terminal in grammar.terminals if terminal.pattern.type == "str"}
    said += sorted(_IN_WORDS.get(kind) or f"'{known[kind]}'" for kind in left if kind in known or kind in _IN_WORDS)
    said = [*dict.fromkeys((*said[:6], *last))]
    if not said:
        return "the end of the script"
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"
