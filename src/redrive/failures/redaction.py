"""Make text safe for a log, a note or a repr: without secrets, on one line, truncated."""

from collections.abc import Iterable

from redrive.failures.added_secrets import ADDED
from redrive.failures.secret_names import names_a_secret
from redrive.failures.secret_text import HIDDEN, may_hold_secrets, without_secrets

ELLIPSIS = "…"
DEFAULT_LIMIT = 500

# How much is read beyond the limit: hiding secrets shortens the text, so more of it fits.
_READ_AHEAD = 4096
# The longest secret that is recognised only by its end (user:password@); longer ones are recognised by their start.
_LONGEST_UNKNOWN = 512

# Short texts that need no redaction. In an outage the same ones come again and again.
_MOST_FIT = 1000
_LONGEST_FIT = 200
_fit: dict[str, None] = {}


def redact(text: str, limit: int = DEFAULT_LIMIT) -> str:
    """Return the text without its secrets, on one line, at most `limit` characters long.

    The time it takes depends on `limit`, not on the length of the text.
    """
    if text in _fit and len(text) <= limit:
        return text
    shown = _redacted(text, limit)
    if shown == text and type(text) is str and len(text) <= _LONGEST_FIT:
        if len(_fit) >= _MOST_FIT:
            _fit.clear()
        _fit[text] = None
    return shown


def hide_secrets(*, names: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
    """Hide more than is known to be secret, in this process: the values of these names, and texts of these patterns.

    A name is found in any spelling and as part of longer ones: "tax_number" also in customerTaxNumber. A pattern is a
    regular expression without groups and alternatives, whose repeats give nothing back, so that no text makes it slow.
    ValueError for one that is not allowed. What is in a store already stays as it is.
    """
    if isinstance(names, str) or isinstance(patterns, str):
        raise ValueError("pass a list, such as names=['iban']")
    ADDED.add(names, patterns)
    names_a_secret.cache_clear()
    _fit.clear()


def _redacted(text: str, limit: int) -> str:
    cut = len(text) > limit + _READ_AHEAD
    unsafe = 0
    if cut:
        text = text[: limit + _READ_AHEAD]
        end = _boundary(text)
        if end > limit:
            text = text[:end]
        else:
            # One very long word: show its beginning.
            unsafe = _LONGEST_UNKNOWN
    if may_hold_secrets(text):
        text = without_secrets(text, cut)
    if unsafe and not text.endswith(HIDDEN):
        text = text[:-unsafe]
    if not text.isprintable():
        text = "".join(character if character.isprintable() else _escaped(character) for character in text)
    if cut or len(text) > limit:
        return text[: max(limit - 1, 0)] + ELLIPSIS[: max(limit, 0)]
    return text


def _boundary(text: str) -> int:
    """Return where the last word starts: a secret that is cut in half there would not be recognised."""
    end = len(text)
    while end and text[end - 1] not in " \t\r\n/?&,;\"'":
        end -= 1
    return end


def _escaped(character: str) -> str:
    """Escape what could forge a log line (line breaks) or control the terminal (escape sequences)."""
    if character.isspace() and character > "\x9f" and character not in "\u2028\u2029":
        return " "
    return character.encode("unicode_escape").decode("ascii")
