"""Find and hide the secrets in a text: passwords in URLs, named values, credentials, tokens, private keys.

When it is unclear where a secret ends, too much is hidden rather than too little. The patterns are kept as text: `re`
compiles and caches them on first use, so that the import stays cheap.
"""

import base64
import binascii
import re
from collections.abc import Iterator

from redrive.failures.added_secrets import ADDED
from redrive.failures.secret_names import WHOLE_LINE_NAMES, names_a_secret

HIDDEN = "***"

# Lower-case text without any of these contains no secret that the patterns below find; most messages have none.
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
    "hooks.slack",
    "akia",
    "asia",
    "aiza",
    "hf_",
    "npm_",
    "whsec_",
    "sg.",
    "ya29.",
    "shpat_",
    "/bot",
    "/webhooks/",
    "rdk_",
    "/completions/",
    "pass",
    "secret",
    "token",
    "credential",
    " key ",
    "pin is",
    "pin was",
)
_QUOTED_PAIR = r"""["']\s*,\s*[bu]?\\*["']"""

_PRIVATE_KEY = r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[^-]{0,20}-----|\Z)"

_USERINFO = r"""(?x)(?<=//)(?:
    [^\s/?\#"<>]*(?=@)    # up to the last @ before the path: user:p@ss@host
    | [^\s/?\#@:\[]*:(?![0-9]*(?:[/?\#]|\s|\Z))[^\s@]{0,1000}(?=@)    # a password with a bare slash; not host:80/a@b
)"""
_CUT_USERINFO = r"(?<=//)(?:[^\s/]*|[^\s/?\#@:\[]*:(?![0-9]*[/?\#])\S*)\Z"

# user:password@host without a scheme; the code in the URL of an OAuth callback; paths that let anyone post to a Slack
# or Discord channel, or act as a Telegram bot.
_BARE_USERINFO = r"(?<![\w.+/\-])[\w.+\-]{1,64}:[^\s@/:\"'<>]{1,256}(?=@[\w\[])"
_CALLBACK_CODE = r"(?i)(?<=[?&]code=)[^&\s#\"'<>]+"
_PATH_TO_HIDE = r"""(?xi)
(?<=/v1/completions/)[^\s/?\#"'<>]+
| (?<=hooks\.slack\.com/services/)[\w/+\-]+
| (?<=/webhooks/)[0-9]{15,}+/[\w\-]{20,}
| (?<=/bot)[0-9]{5,}+(?::|%3A)[\w\-]{20,}
"""

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
    | (?:hf|npm)_[A-Za-z0-9]{20,}
    | whsec_[A-Za-z0-9+/]{16,}={0,2}
    | SG\.[\w-]{16,}\.[\w-]{16,}
    | ya29\.[\w.-]{16,}
    | shpat_[A-Za-z0-9]{16,}
    | rdk_[0-9a-f]{6,}(?:_[0-9a-f]*)?    # redrive's own API keys
)"""
# The token with which an attempt is completed: flow.item.delivery.
_COMPLETION_TOKEN = r"(?<=[0-9a-f]\.)[0-9]{1,9}\.[0-9a-f]{32}(?![0-9a-f])"  # noqa: S105 - a pattern
_COMPLETION_MARK = r"\.[0-9]{1,9}\.[0-9a-f]{32}"

_BEARER = r"(?i)\b(?P<scheme>bearer)\s+(?P<value>[^\s\"',;]+)"
_PROSE_AFTER_BEARER = (
    r"(?i)(?:tokens?|auth|authentication|authorization|schemes?|credentials?|headers?|errors?|is|was|required|missing"
    r"|invalid|expired|(?:realm|error|scope)=)[.:)!?]*"
)
_BASIC = r"(?i)\bbasic\s+(?P<value>[A-Za-z0-9+/_-]{4,}={0,2})"

# A name and the separator after it. The value is examined separately, so that in "error: password=x" the password is
# not skipped as the value of "error".
_SEPARATOR = r"""(?:\\{0,3}["'])?(?:\]|%5D)?\s{0,8}(?:=>|:=|==|[=:]|%3D)\s{0,8}"""
_NAME = rf"""(?xi)(?<![\w.\-])(?P<option>--)?(?P<name>[\w.\-]++)
(?:
    {_SEPARATOR}    # name=  "name":  user[name]=
    | \\{{0,3}}["']\s{{0,8}},\s{{0,8}}(?=[bu]?\\{{0,3}}["'])    # ('name', 'value')
    | (?P<tag>>)    # <name>value
    | (?(option)\s{{1,8}}|(?!))    # --name value
)"""
# Names of several words, and values that are told in a sentence: "API key: x", "the password is x", "password 'x'".
_SPOKEN = r"""(?xi)(?<![\w.\-])
(?:
    (?:api|secret|access|private|signing|encryption|auth|shared|master|account|subscription|license)\s{1,3}keys?
        (?:\s{0,4}[=:]|\s{1,4}(?:is|was|are)\b|(?=\s{1,4}["']))
    | (?:pass(?:word|wd|phrase|code)s?|pwd|pin|(?:[\w\-]{1,40}\s)?(?:secret|token)s?|credentials?)
        (?:\s{1,4}(?:is|was|are)\b|(?=\s{1,4}["']))
)
\s{0,4}[=:]?\s{0,4}"""
# "the password is not valid", "the token was revoked": what tells about a secret without saying it.
_PROSE_AFTER_SPOKEN = (
    r"(?i)(?:a|about|absent|accepted|all|already|also|always|an|and|any|as|at|available|bad|because|before|being|blank"
    r"|by|case|changed|checked|compromised|correct|created|default|deleted|denied|different|disabled|due|either|empty|enabled"
    r"|encrypted|ended|expected|expired|expiring|fine|for|found|from|generated|given|going|gone|good|hashed|hidden|how|if|ignored"
    r"|in|inactive|incorrect|incomplete|insecure|invalid|it|just|kept|known|leaked|like|locked|long|longer|lost"
    r"|malformed|managed|mandatory|missing|needed|neither|never|new|no|nobody|not|nothing|now|null|none|of|ok|okay|old"
    r"|older|on|one|only|optional|or|our|out|outdated|over|present|probably|protected|read|ready|refused|rejected"
    r"|required|reset|revoked|rotated|safe|same|sensitive|sent|set|short|shorter|shown|still|stored|supplied|that|the"
    r"|their|then|there|this|to|too|unavailable|unchanged|undefined|unique|unknown|unsafe|unset|unused|updated|used|valid"
    r"|verified|very|weak|what|when|where|which|why|with|within|without|worn|wrong|yet|you|your)"
    r"(?=[\s.,;:!?)\"']|\Z)"
)
# What may precede the value and is hidden with it: an authentication scheme, further names.
_SCHEME = r"(?:bearer|basic|token|apikey|negotiate)\s+"
_LEADING = rf"""(?i)(?:{_SCHEME}|(?:\\{{0,3}}["'])?[\w.\-]++{_SEPARATOR})*+"""
_OPENING_QUOTE = r"""[bBuU]?(?P<backslashes>\\{0,3})(?P<quote>["'])"""
_BARE = r"""(?:[^\s&;"'<>]|["'](?=\w))+"""
_LINE = r"[^\r\n]+"
# Redacting twice changes nothing.
_HIDDEN_BEFORE = r"\*\*\*(?=[\s,;&\"'<>)\]}]|\Z)"
_PLAIN_VALUE = r"(?i)(?:[0-9]++|true|false|none|null)(?!\.?[\w\-])"
_LONGEST_NAME = 80


def may_hold_secrets(text: str) -> bool:
    """Return False when there is certainly nothing to hide. Fast, since most texts end here."""
    small = text.lower()
    # A plain loop: `any` over a generator takes four times as long, and every failed attempt comes here.
    for mark in _MARKS:
        if mark in small:
            return True
    if re.search(_QUOTED_PAIR, small) is not None or re.search(_COMPLETION_MARK, small) is not None:
        return True
    return bool(ADDED.patterns) and next(ADDED.match(text), None) is not None


def without_secrets(text: str, cut: bool = False) -> str:
    """Return the text with its secrets hidden. `cut`: the text is truncated and may end in the middle of a secret."""
    # All are found before any is hidden: hiding one could remove the name by which another is recognised.
    found = sorted((start, end) for start, end in _secrets(text, cut) if end > start)
    kept: list[str] = []
    done = 0
    for start, end in found:
        if start > done or not kept:
            kept += (text[done:start], HIDDEN)
        done = max(done, end)
    kept.append(text[done:])
    return "".join(kept)


def _secrets(text: str, cut: bool) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret."""
    plain = (_PRIVATE_KEY, _USERINFO, _BARE_USERINFO, _CALLBACK_CODE, _PATH_TO_HIDE, _TOKENS, _COMPLETION_TOKEN)
    for pattern in (*plain, *((_CUT_USERINFO,) if cut else ())):
        for found in re.finditer(pattern, text):
            yield found.span()
    for found in re.finditer(_BEARER, text):
        if not _is_prose(found["scheme"], found["value"]):
            yield found.span("value")
    for found in re.finditer(_BASIC, text):
        if _is_user_and_password(found["value"]):
            yield found.span("value")
    yield from _named_secrets(text)
    yield from _spoken_secrets(text)
    for found in ADDED.match(text):
        yield found.span()


def _spoken_secrets(text: str) -> Iterator[tuple[int, int]]:
    for found in re.finditer(_SPOKEN, text):
        if _match(_PROSE_AFTER_SPOKEN, text, found.end()) is None:
            yield found.end(), _end_of_value(text, found.end(), "")


def _named_secrets(text: str) -> Iterator[tuple[int, int]]:
    for found in re.finditer(_NAME, text):
        if _needs_hiding(text, found):
            end = _end_of_value(text, found.end(), found["name"].lower())
            yield found.end(), end
            if end == len(text):
                return


def _needs_hiding(text: str, found: "re.Match[str]") -> bool:
    name = found["name"][-_LONGEST_NAME:]
    before = text[found.start() - 1] if found.start() else ""
    if found["tag"] and before != "<":
        return False
    if names_a_secret(name):
        return True
    name = name.lower()
    # "key" alone is an API key in a query string, and an ordinary word elsewhere.
    if before in ("?", "&") and name in ("key", "pass"):
        return True
    # "unexpected tokens: }", "3 tests pass: all good" and "tokens=512" are harmless too.
    is_prose = text[found.end("name") : found.end()].strip() == ":"
    return name in ("pass", "tokens") and not is_prose and _match(_PLAIN_VALUE, text, found.end()) is None


def _end_of_value(text: str, start: int, name: str) -> int:
    """Return where the secret that begins at `start` ends."""
    if (found := _match(_HIDDEN_BEFORE, text, start)) is not None:
        return found.end()
    if name in WHOLE_LINE_NAMES and _match(rf"(?i){_SCHEME}|{_OPENING_QUOTE}", text, start) is None:
        found = _match(_LINE, text, start)
        return found.end() if found else start
    if (found := _match(_LEADING, text, start)) is not None:
        start = found.end()
    if (found := _match(_OPENING_QUOTE, text, start)) is not None:
        return _after_closing_quote(text, found.end(), found["quote"], len(found["backslashes"]))
    if text[start : start + 1] in ("(", "[", "{"):
        return _after_closing_bracket(text, start)
    if (found := _match(_BARE, text, start)) is None:
        return start
    return start + (len(found[0].rstrip(",.)]}")) or len(found[0]))


def _match(pattern: str, text: str, start: int) -> "re.Match[str] | None":
    return re.compile(pattern).match(text, start)


def _after_closing_quote(text: str, start: int, quote: str, escapes: int) -> int:
    """Return the position after the closing quote, or the end of the text when there is none.

    `escapes`: backslashes before the opening quote; JSON inside JSON writes its quotes as \\".
    """
    position = start
    while (end := text.find(quote, position)) != -1:
        position = end + 1
        before = end
        while before > start and text[before - 1] == "\\":
            before -= 1
        # The closing quote has as many backslashes as the opening one; quotes inside the value have more.
        closes = end - before == escapes
        if closes and text[position : position + 1] == quote:
            position += 1  # a doubled quote is an escaped quote inside the value
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


def _is_prose(scheme: str, word: str) -> bool:
    """ "the bearer of bad news", "Bearer authentication"."""
    ordinary = scheme == "bearer" and word.isalpha() and word.islower()
    return ordinary or re.fullmatch(_PROSE_AFTER_BEARER, word) is not None


def _is_user_and_password(word: str) -> bool:
    """Whether the word is base64 of user:password, unlike "example" in "basic example"."""
    bare = word.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) % 4 == 1:
        bare = bare[:-1]  # it was truncated
    try:
        return b":" in base64.b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        return False
