"""Says in words why an expression cannot be read, and what was probably meant."""

from collections.abc import Collection, Sequence

from redrive.expressions.parser import AN_OPERATOR
from redrive.expressions.tokens import Token
from redrive.near_names import near_name

_MARKS = {
    "!": "write 'not'",
    "&": "write 'and'",
    "|": "write 'or'",
    ";": "write one statement a line",
    "\\": "a line continues only inside brackets; put ( ) around it",
}


def describe(token: Token) -> str:
    """A token as error messages name it."""
    if token.kind == "end":
        return "the end of the line"
    if token.kind == "policy":
        return "a policy"
    return f"'{token.text if len(token.text) <= 40 else token.text[:37] + '...'}'"


def near_word(word: str, known: Sequence[str]) -> str:
    """The word of the language that was probably meant; empty when none is similar."""
    return near_name(word, known)


def expression_hint(
    line: Sequence[Token], index: int, expected: str, functions: Collection[str]
) -> tuple[Token, str] | None:
    """The token to point at and what to say about a usual mistake. `functions`: what values can be handed to."""
    token, before = line[index], line[index - 1] if index else None
    behind_value = AN_OPERATOR in expected
    match token.kind:
        case "unclosed":
            mark = token.text[0]
            return token, f"this string has no closing {mark}; a string ends on its line, write \\n for a line break"
        case "glued":
            return token, f"'{token.text[:40]}' is neither a number nor a duration such as 30s, 2m or 1h30m"
        case "stray":
            meant = _MARKS.get(token.text)
            return token, f"'{token.text}' means nothing here{f'; {meant}' if meant else ''}"
        case "for" | "name" if behind_value and token.text == "for":
            return token, "there are no comprehensions; write a 'for' on lines of its own"
        case "." if behind_value:
            message = 'only a failure that was caught with "as" has attributes; for a dict write ["name"]'
            return token, _method(line, index, functions) or message
        case "string" if before is not None and before.kind == "name" and before.end == token.start:
            return before, f"strings have no prefix '{before.text}'; write \"...\" + str(value)"
        case "name" if behind_value:
            meant = near_word(token.text, ("and", "or", "in", "is", "if", "else", "not"))
            return (token, f"'{token.text}' cannot stand here; did you mean '{meant}'?") if meant else None
    return None


def found_instead(token: Token, expected: str) -> str:
    return f"found {describe(token)}, expected {expected}"


def _method(line: Sequence[Token], dot: int, functions: Collection[str]) -> str:
    """What to write instead of `value.method(...)`; empty where nothing is called."""
    if [one.kind for one in line[dot + 1 : dot + 3]] != ["name", "("]:
        return ""
    method, value, given = line[dot + 1].text, _shown(line[dot - 1], "value"), ""
    if len(line) > dot + 4 and line[dot + 4].kind == ")":
        given = _shown(line[dot + 3], "")
    instead = ""
    if method == "append":
        instead = f"{value} += [{given or 'element'}]"
    elif method == "extend":
        instead = f"{value} += {given or 'elements'}"
    elif method in functions:
        empty = line[dot + 3].kind == ")"
        instead = f"{method}({value})" if empty else f"{method}({value}, {given or '...'})"
    return f"values have no methods; write {instead}" if instead else "values have no methods"


def _shown(token: Token, otherwise: str) -> str:
    """The text of a token that is a short value by itself."""
    return token.text if token.kind in ("name", "string", "number") and len(token.text) <= 40 else otherwise
