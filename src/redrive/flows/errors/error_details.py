"""The arguments and attributes of an exception as JSON, of bounded size and without secrets.

Types that JSON does not have are written as {"$": kind, "of": ...}.
"""

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from redrive.determinism.ids import UUID
from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret
from redrive.failures.secret_text import HIDDEN, may_hold_secrets, without_secrets

_KIND: Final = "$"
_OF: Final = "of"
_BY_TEXT: Final[dict[str, Any]] = {kind.__name__: kind for kind in (datetime, date, time, timedelta, Decimal, UUID)}
_BY_ITEMS: Final[dict[str, Any]] = {kind.__name__: kind for kind in (tuple, set, frozenset)}

_CONTAINERS = (list, tuple, set, frozenset, dict)
_LONGEST_TEXT = 2_000
_LONGEST_DETAILS = 8_000
_READ_TEXT = 8_000
_SHORTEST_SECRET = 4
_MOST_PARTS = 100
_DEEPEST = 5
_WIDEST_INTEGER = 1 << 256
# Hiding one secret can make the text beside it look like another; after so many passes it no longer changes.
_PASSES = 4
_NAME_ALONE = r"\s*-{0,2}[\w.\-]{1,80}\s*[:=]?\s*"


class NotKept(Exception):
    """JSON cannot hold the value, or it is too large."""


def shown_text(text: str, limit: int) -> str:
    """Redact the text until redacting it again changes nothing."""
    shown = redact(text, limit)
    for _ in range(_PASSES):
        again = redact(shown, limit)
        if again == shown:
            break
        shown = again
    return shown


def kept_text(text: str) -> str:
    """The text without secrets and of bounded length; line breaks are kept."""
    text = str.__str__(text)
    if len(text) > _LONGEST_TEXT:
        text = redact(text, _LONGEST_TEXT)
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return _without_secrets(text)


def _without_secrets(text: str) -> str:
    for _ in range(_PASSES):
        if not may_hold_secrets(text):
            break
        again = without_secrets(text)
        if again == text:
            break
        text = again
    return text


class DetailWriter:
    """Writes the details of one error. `raw` is the error's text, and `shown` the redacted text."""

    __slots__ = ("_changed", "_is_clear", "_raw", "_room", "_shown")

    def __init__(self, raw: str, shown: str) -> None:
        self._raw = raw
        self._is_clear = raw == shown
        self._shown = shown if self._is_clear else redact(raw, _READ_TEXT)
        self._room = _LONGEST_DETAILS
        self._changed: list[tuple[str, str]] = []

    def write(self, value: Any) -> Any:
        """The value as JSON data; raises NotKept when that is not possible."""
        room = self._room
        try:
            return self._plain(value, 0)
        except NotKept:
            self._room = room
            raise

    def message(self, limit: int) -> str:
        """The error's text for the store, with the details that it quotes redacted as they were written."""
        text = self._raw
        if self._is_clear and not self._changed:
            return text
        for given, kept in self._changed:
            text = text.replace(repr(given)[1:-1], repr(kept)[1:-1]).replace(given, kept)
        return shown_text(text, limit)

    def _plain(self, value: Any, depth: int) -> Any:
        self._take(8)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, int) and abs(value) < _WIDEST_INTEGER:
            return HIDDEN if self._was_hidden(int.__str__(value)) else int.__int__(value)
        if isinstance(value, float) and math.isfinite(value):
            return float.__float__(value)
        if isinstance(value, bytes):
            return {_KIND: "bytes", _OF: msgspec.to_builtins(self._bytes(value))}
        if isinstance(value, PurePath):
            return {_KIND: "Path", _OF: self._text(str(value))}
        if type(value) is _BY_TEXT.get(type(value).__name__):
            text = msgspec.to_builtins(value)
            return {_KIND: type(value).__name__, _OF: text} if self._text(text) == text else HIDDEN
        if depth >= _DEEPEST or not isinstance(value, _CONTAINERS) or len(value) > _MOST_PARTS:
            raise NotKept
        if isinstance(value, dict):
            return self._dict(value, depth)
        if isinstance(value, list):
            return self._items(value, depth)
        if isinstance(value, tuple):
            return {_KIND: "tuple", _OF: self._items(list(value), depth)}
        # Hidden elements are equal now, so a dict drops the duplicates.
        items = {msgspec.json.encode(plain): plain for plain in (self._plain(item, depth + 1) for item in value)}
        kind = "set" if isinstance(value, set) else "frozenset"
        return {_KIND: kind, _OF: [items[text] for text in sorted(items)]}

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        pairs = [
            [self._plain(key, depth + 1), HIDDEN if _names_a_secret(key) else self._plain(item, depth + 1)]
            for key, item in value.items()
        ]
        if all(isinstance(key, str) and key != _KIND for key, _ in pairs):
            return dict(pairs)
        return {_KIND: "dict", _OF: list({msgspec.json.encode(key): [key, item] for key, item in pairs}.values())}

    def _items(self, items: list[Any], depth: int) -> list[Any]:
        """Hide the element after the name of a secret: ("password", "..."), ["--token", "..."]."""
        return [
            HIDDEN if isinstance(item, str | bytes) and _names_a_secret(before) else self._plain(item, depth + 1)
            for before, item in zip([None, *items], items, strict=False)
        ]

    def _text(self, text: str) -> str:
        if self._was_hidden(text):
            return HIDDEN
        # The error's text shows it already.
        kept = text if self._is_clear and text in self._raw else kept_text(text)
        if kept != text:
            self._changed.append((text, kept))
        self._take(len(kept))
        return kept

    def _bytes(self, value: bytes) -> bytes:
        if len(value) > _LONGEST_TEXT:
            raise NotKept
        self._take(len(value))
        text = value.decode("utf-8", "surrogateescape")
        if self._was_hidden(text):
            return HIDDEN.encode()
        kept = _without_secrets(text)
        if kept != text:
            self._changed.append((text, kept))
        return kept.encode("utf-8", "surrogateescape")

    def _was_hidden(self, text: str) -> bool:
        """Whether redacting the error's text hid this text, so that it must be hidden on its own as well."""
        if self._is_clear or len(text) < _SHORTEST_SECRET:
            return False
        return text in self._raw and redact(text, _READ_TEXT) not in self._shown

    def _take(self, room: int) -> None:
        self._room -= room
        if self._room < 0:
            raise NotKept


def _names_a_secret(value: Any) -> bool:
    if isinstance(value, bytes):
        value = value[:100].decode("ascii", "replace")
    return isinstance(value, str) and re.fullmatch(_NAME_ALONE, value) is not None and names_a_secret(value)


def read_detail(plain: Any) -> Any:
    """Read back a value that DetailWriter wrote."""
    if isinstance(plain, list):
        return [read_detail(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    kind = plain.get(_KIND)
    if kind is None:
        return {key: read_detail(item) for key, item in plain.items()}
    if kind == "dict":
        return {read_detail(key): read_detail(item) for key, item in plain[_OF]}
    if kind in _BY_ITEMS:
        return _BY_ITEMS[kind](map(read_detail, plain[_OF]))
    if kind == "Path":
        return Path(plain[_OF])
    return msgspec.convert(plain[_OF], bytes if kind == "bytes" else _BY_TEXT[kind])
