"""How a value of a type hint is written as JSON and read back, so that nothing is lost on the way unnoticed."""

import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from itertools import accumulate
from pathlib import PurePath
from typing import Any, Final

import msgspec

from redrive.errors import DeserializationError, SerializationError, TypeHintError
from redrive.failures.redaction import redact

LONGEST_JSON: Final = 8 * 1024 * 1024
"""Bytes that one result, or the arguments of one call, may take."""
DEEPEST_JSON: Final = 500
"""Lists and objects that may stand in one another: what reads them later may have called itself many times by then."""
SHORT_JSON: Final = 2 * DEEPEST_JSON
"""Bytes that cannot be nested too deeply."""

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
# One level deeper, one less deep: as signed bytes 1 and -1.
_LEVELS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STORABLE = "pass plain data, a dataclass, a msgspec Struct or another type that JSON can hold"


class JsonForm:
    """The JSON form of one type hint. `where` says whose value it is, in messages: "action charge: its result".

    A value is read back as soon as it is written, and must then be equal to the one given, so that what JSON or the
    hint does not keep (NaN, the fields of a subclass, a datetime that nobody annotated) is refused and not lost.
    """

    __slots__ = ("_annotated", "_decode", "_encode", "_hint", "_longest", "_where")

    def __init__(self, hint: Any, where: str, longest: int = LONGEST_JSON, annotated: bool = True) -> None:
        """`annotated`: whether the hint is the user's own, so that another one could help."""
        self._annotated = annotated
        self._where = where
        self._hint = hint
        self._longest = longest
        try:
            self._decode = msgspec.json.Decoder(hint, dec_hook=_read_foreign).decode
            self._encode = _encode_sorted if _may_hold_sets(hint) else _ENCODER.encode
        except Exception as error:
            raise TypeHintError(
                f"{where}: the type hint {shown_hint(hint)} cannot be stored: {redact(str(error))}"
            ) from error

    def write(self, value: Any) -> tuple[str, Any]:
        """The text, and the value as reading it gives it."""
        try:
            written = self._encode(value)
        except Exception as error:
            raise SerializationError(f"{self._where} cannot be stored: {_why_unwritable(error)}") from error
        if len(written) > self._longest:
            raise SerializationError(
                f"{self._where} cannot be stored: {len(written):,} bytes of JSON are more than the {self._longest:,} "
                "allowed; keep it elsewhere and pass a reference"
            )
        if len(written) > SHORT_JSON and is_too_deep(written):
            raise SerializationError(
                f"{self._where} cannot be stored: it is nested deeper than the {DEEPEST_JSON} levels allowed; pass it "
                "as a flat list, or as text"
            )
        try:
            read = self._decode(written)
        except Exception as error:
            why = f"it does not fit its type hint {shown_hint(self._hint)}: {redact(str(error))}"
            if b"null" in written and (odd := _odd_number(msgspec.to_builtins(value, enc_hook=_write_foreign))):
                why = odd
            raise SerializationError(f"{self._where} cannot be stored: {why}") from error
        try:
            if read == value:
                return written.decode(), read
            lost = _what_is_lost(value, read, self._annotated)
        except Exception as error:  # noqa: BLE001 - values compare by code of the user, or are nested too deeply
            lost = f"it cannot be compared with what was stored ({type(error).__name__})"
        if lost:
            raise SerializationError(f"{self._where} cannot be stored: {lost}")
        return written.decode(), read

    def read(self, text: str) -> Any:
        try:
            return self._decode(text)
        except Exception as error:
            raise DeserializationError(
                f"{self._where} cannot be read from the store: {redact(str(error))}; the type hint is "
                f"{shown_hint(self._hint)} now"
            ) from error


def is_too_deep(written: bytes) -> bool:
    """Whether JSON is nested deeper than allowed. Quick where it is short or flat, as nearly all of it is."""
    if len(written) <= SHORT_JSON or written.count(b"[") + written.count(b"{") <= DEEPEST_JSON:
        return False
    levels = memoryview(_STRINGS.sub(b"", written).translate(_LEVELS, _NO_BRACKETS)).cast("b")
    # In one pass: answers of several megabytes are looked at in the event loop.
    return max(accumulate(levels), default=0) > DEEPEST_JSON


def is_storable(text: str) -> bool:
    """Whether every store can hold it: NUL and halves of characters are not for all of them."""
    return "\x00" not in text and text == text.encode("utf-8", "ignore").decode()


def shown_hint(hint: Any) -> str:
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return hint.__name__
    return str(hint).replace("typing.", "")


def _write_foreign(value: Any) -> Any:
    """What msgspec does not know: paths, pydantic models by their own methods, and subclasses of simple types."""
    if isinstance(value, PurePath):
        return str(value)
    for simple, exact in _EXACT:
        if isinstance(value, simple):
            return exact(value)
    if hasattr(value, "model_dump") and hasattr(value, "model_validate_json"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(f"JSON has no form for {type(value).__qualname__}; {_STORABLE}")


def _read_foreign(kind: Any, value: Any) -> Any:
    if isinstance(kind, type):
        if isinstance(value, kind):
            return value
        if issubclass(kind, PurePath) and isinstance(value, str):
            return kind(value)
        validate = getattr(kind, "model_validate_json", None)
        if validate is not None:
            # As JSON, not as Python objects: a strict model takes a date from text only there.
            return validate(_ENCODER.encode(value))
    raise TypeError(f"{shown_hint(kind)} cannot be read from JSON")


_EXACT: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (datetime, lambda value: datetime.combine(value.date(), value.timetz())),
    (date, lambda value: date(value.year, value.month, value.day)),
)
_ENCODER: Final = msgspec.json.Encoder(enc_hook=_write_foreign)
_SORTING: Final = msgspec.json.Encoder(enc_hook=_write_foreign, order="deterministic")


def _encode_sorted(value: Any) -> bytes:
    try:
        return _SORTING.encode(value)
    except TypeError:
        # Enums have no order, and keys other than str are not sorted: the order is then that of this process.
        return _ENCODER.encode(value)


def _may_hold_sets(hint: Any) -> bool:
    """Sets have another order in each process: they are written sorted, so that equal values have equal texts."""
    from msgspec.inspect import type_info  # loaded with the first definition that is used

    return "SetType(" in repr(type_info(hint))


def _why_unwritable(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds a lone surrogate, which is half a character; decode the text it came from differently"
    if isinstance(error, RecursionError):
        return "it contains itself, or is nested too deeply"
    return redact(str(error))


def _odd_number(plain: Any) -> str | None:
    if isinstance(plain, float):
        return None if math.isfinite(plain) else f"JSON has no number {plain}; pass None, or the number as text"
    parts: Iterable[Any] = ()
    if isinstance(plain, dict):
        parts = plain.values()
    elif isinstance(plain, list | tuple | set | frozenset):
        parts = plain
    return next((odd for part in parts if (odd := _odd_number(part))), None)


def _what_is_lost(given: Any, read: Any, annotated: bool) -> str | None:
    """Why the value read is not the one given; None when it is, in another but equal form."""
    if given is read or given == read:
        return None
    if odd := _odd_number(given):
        return odd
    pairs: Iterable[tuple[Any, Any]] | None = None
    if isinstance(given, list | tuple) and isinstance(read, list | tuple) and len(given) == len(read):
        pairs = zip(given, read, strict=True)
    elif isinstance(given, dict) and isinstance(read, dict) and given.keys() == read.keys():
        pairs = ((given[key], read[key]) for key in given)
    elif isinstance(given, dict) and isinstance(read, dict):
        key = next((key for key in given if key not in read), None)
        if isinstance(key, str):
            return f"the key {redact(repr(key), 60)} of a dict would be lost: its type hint has no such key"
        hint = f"annotate it with dict[{type(key).__qualname__}, ...], or " if annotated else ""
        return f"the key {redact(repr(key), 60)} of a dict would come back as text; {hint}use texts as keys"
    elif isinstance(given, datetime) and isinstance(read, datetime):
        # In the hour that a zone repeats, Python calls equal instants of different zones unequal.
        if given.tzinfo and read.tzinfo and given.timestamp() == read.timestamp():
            return None
    elif type(given) is type(read) and not isinstance(given, list | tuple | dict):
        if names := _field_names(type(given)):
            pairs = ((getattr(given, name, None), getattr(read, name, None)) for name in names)
        elif _ENCODER.encode(given) == _ENCODER.encode(read):
            return None
    if pairs is not None:
        return next((lost for one, other in pairs if (lost := _what_is_lost(one, other, annotated))), None)
    if type(given) is type(read):
        return f"{_described(given)} would come back as another one, which is not equal to it"
    what_to_do = f"annotate it with {type(given).__qualname__}, or pass what is annotated"
    if not annotated:
        what_to_do = f"pass {_described(read)}, and make {_described(given)} of it where it is used"
    return f"{_described(given)} would come back as {_described(read)}; {what_to_do}"


def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a Struct, a dataclass or an attrs class."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if attributes := getattr(kind, "__attrs_attrs__", None):
        return tuple(attribute.name for attribute in attributes)
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def _described(value: Any) -> str:
    name = type(value).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
