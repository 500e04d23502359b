"""Find the secrets in a text and hide them: passwords in URLs, named values, credentials, tokens, private keys.

Where it is unclear how far a secret goes, more is hidden rather than less. The patterns are kept as text: `re`
compiles and caches them on first use, so that importing costs nothing.
"""

import base64
import binascii
import re

from redrive.failures.secret_names import WHOLE_LINE_NAMES, names_a_secret

HIDDEN = "***"

# Text in small letters without any of these holds nothing that the rules below would find; most messages have none.
_MARKS = (
    "=",
    ":",
    ">",
    "%3d",
    "//",
    "--",
    "bearer",
    "basic",
    "eyj",
    "_live_",
    "_test_",
    "sk-",
    "gh",
    "glpat-",
    "xox",
    "akia",
    "asia",
    "aiza",
)  # fmt: skip - a mark a line would hide the list in a page of lines
_QUOTED_PAIR = r"""["']\s*,\s*[bu]?\\*["']"""

_PRIVATE_KEY = r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[^-]{0,20}-----|\Z)"

_USERINFO = r"""(?x)(?<=//)(?:
    [^\s/?\#"<>]*@    # up to the last @ before the path: user:p@ss@host
    | [^\s/?\#@:\[]*:(?![0-9]*(?:[/?\#]|\s|\Z))[^\s@]{0,1000}@    # a password with a bare slash; not host:80/a@b
)"""
_CUT_USERINFO = r"(?<=//)(?:[^\s/]*|[^\s/?\#@:\[]*:(?![0-9]*[/?\#])\S*)\Z"

_TOKENS = r"""(?xa)
eyJ[\w-]{4,}+(?:\.[\w-]*+){1,4}    # JWT, JWE
| (?<![A-Za-z0-9])(?:
    [srp]k_(?:live|test)_[A-Za-z0-9]{6,}
    | sk-[\w-]{16,}
    | gh[a-z]_[A-Za-z0-9]{16,}
    | github_pat_\w{16,}
    | glpat-[\w-]{16,}
    | xox[a-z]-[\w-]{8,}
    | (?:AKIA|ASIA)[A-Z0-9]{12,}
    | AIza[\w-]{30,}
)"""

_BEARER = r"(?i)\b(?P<scheme>bearer)\s+(?P<value>[^\s\"',;]+)"
_PROSE_AFTER_BEARER = (
    r"(?i)(?:tokens?|auth|authentication|authorization|schemes?|credentials?|headers?|errors?|is|was|required|missing"
    r"|invalid|expired|(?:realm|error|scope)=)[.:)!?]*"
)
_BASIC = r"(?i)\bbasic\s+(?P<value>[A-Za-z0-9+/_-]{4,}={0,2})"

# A name and what stands between it and its value. The value is looked at apart, so that in "error: password=x" it is
# not taken for the value of "error".
_NAME = r"""(?xi)(?<![\w.\-])(?P<option>--)?(?P<name>[\w.\-]++)
(?:
    (?:\\{0,3}["'])?(?:\]|%5D)?\s{0,8}(?:=>|:=|==|[=:]|%3D)\s{0,8}    # name=  "name":  user[name]=
    | \\{0,3}["']\s{0,8},\s{0,8}(?=[bu]?\\{0,3}["'])    # ('name', 'value')
    | (?P<tag>>)    # <name>value
    | (?(option)\s{1,8}|(?!))    # --name value
)"""
_FURTHER_NAMES = r"(?:[\w.\-]++[=:]\s{0,8})++"
_OPENING_QUOTE = r"""[bBuU]?(?P<backslashes>\\{0,3})(?P<quote>["'])"""
_BARE = r"""(?:[^\s&;"'<>]|["'](?=\w))+"""
_SCHEME_AND_CREDENTIALS = r"(?i)(?:bearer|basic|token|apikey|negotiate)\s+[^\s\"',;]+"
_LINE = r"[^\r\n]+"
_LONGEST_NAME = 80


def may_hold_secrets(text: str) -> bool:
    """False when there is certainly nothing to hide; quick, since most texts end here."""
    small = text.lower()
    return any(mark in small for mark in _MARKS) or re.search(_QUOTED_PAIR, small) is not None


def without_secrets(text: str, cut: bool = False) -> str:
    """The text with its secrets hidden. `cut` says that the text went on, and may end with half a secret."""
    text = re.sub(_PRIVATE_KEY, HIDDEN, text)
    text = re.sub(_USERINFO, f"{HIDDEN}@", text)
    if cut:
        text = re.sub(_CUT_USERINFO, HIDDEN, text)
    text = _without_named_secrets(text)
    text = re.sub(_BEARER, _hide_bearer, text)
    text = re.sub(_BASIC, _hide_basic, text)
    return re.sub(_TOKENS, HIDDEN, text)


def _without_named_secrets(text: str) -> str:
    kept: list[str] = []
    position = done = 0
    search = re.compile(_NAME).search
    while (found := search(text, position)) is not None:
        position = found.end()
        if not _needs_hiding(text, found):
            continue
        end = _end_of_value(text, position, found["name"].lower())
        if end > position:
            kept += (text[done:position], HIDDEN)
            done = position = end
    if not kept:
        return text
    kept.append(text[done:])
    return "".join(kept)


def _needs_hiding(text: str, found: "re.Match[str]") -> bool:
    name = found["name"][-_LONGEST_NAME:]
    before = text[found.start() - 1] if found.start() else ""
    if found["tag"] and before != "<":
        return False
    # A lone "key" is an API key in a query string, and an ordinary word elsewhere.
    return names_a_secret(name) or (before in ("?", "&") and name.lower() == "key")


def _end_of_value(text: str, start: int, name: str) -> int:
    """Where the secret that begins at `start` ends."""
    if name in WHOLE_LINE_NAMES and _match(_OPENING_QUOTE, text, start) is None:
        found = _match(_SCHEME_AND_CREDENTIALS, text, start) or _match(_LINE, text, start)
        return found.end() if found else start
    if (found := _match(_FURTHER_NAMES, text, start)) is not None:
        start = found.end()
    if (found := _match(_OPENING_QUOTE, text, start)) is not None:
        return _after_closing_quote(text, found.end(), found["quote"], len(found["backslashes"]))
    if text[start : start + 1] in ("(", "[", "{"):
        return _after_closing_bracket(text, start)
    found = _match(_SCHEME_AND_CREDENTIALS, text, start) or _match(_BARE, text, start)
    if found is None:
        return start
    return start + (len(found[0].rstrip(",.)]}")) or len(found[0]))


def _match(pattern: str, text: str, start: int) -> "re.Match[str] | None":
    return re.compile(pattern).match(text, start)


def _after_closing_quote(text: str, start: int, quote: str, escapes: int) -> int:
    """Past the quote that closes the value, or the end of the text when none does.

    `escapes` is how many backslashes stand before the opening quote: JSON inside JSON writes its quotes as \\".
    """
    position = start
    while (end := text.find(quote, position)) != -1:
        position = end + 1
        before = end
        while before > start and text[before - 1] == "\\":
            before -= 1
        closes = end - before == escapes if escapes else (end - before) % 2 == 0
        if closes and text[position : position + 1] == quote:
            position += 1  # a doubled quote is one quote inside the value
        elif closes:
            return position
    return len(text)


def _after_closing_bracket(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        if text[position] in "([{":
            depth += 1
        elif text[position] in ")]}":
            depth -= 1
        if depth == 0:
            return position + 1
    return len(text)


def _hide_bearer(found: "re.Match[str]") -> str:
    value = found["value"]
    in_prose = found["scheme"] == "bearer" and value.isalpha() and value.islower()
    if in_prose or re.fullmatch(_PROSE_AFTER_BEARER, value):
        return found[0]
    return found[0].removesuffix(value) + HIDDEN


def _hide_basic(found: "re.Match[str]") -> str:
    """Basic credentials are base64 of user:password; "basic example" is not."""
    value = found["value"]
    bare = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        return found[0]
    return found[0].removesuffix(value) + HIDDEN if b":" in decoded else found[0]
