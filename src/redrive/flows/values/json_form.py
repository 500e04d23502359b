"""Encode a value as JSON by its type hint, and check that decoding it loses nothing."""

import math
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import PurePath
from typing import Any, Final

import msgspec

from redrive.errors import DeserializationError, SerializationError, TypeHintError
from redrive.failures.redaction import redact
from redrive.flows.values.json_limits import (
    DEEPEST_JSON,
    LONGEST_JSON,
    MOST_VALUES,
    SHORT_JSON,
    has_too_many_values,
    is_too_deep,
)

_STORABLE = "use plain data, a dataclass, a msgspec Struct or another type that JSON can hold"


class JsonForm:
    """Encodes and decodes values of one type hint. `where` names the value in messages: "action charge: its result".

    Each value is decoded right after it is encoded, and must equal the original. So a value that JSON or the hint
    cannot hold (NaN, the fields of a subclass, a datetime without a hint) is refused instead of being lost.
    """

    __slots__ = ("_annotated", "_decode", "_encode", "_hint", "_longest", "_where")

    def __init__(self, hint: Any, where: str, longest: int = LONGEST_JSON, annotated: bool = True) -> None:
        """`annotated`: whether users wrote the hint, so that messages may suggest another."""
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
        """The JSON text, and the value decoded from it."""
        try:
            written = self._encode(value)
        except Exception as error:
            raise SerializationError(f"{self._where} cannot be stored: {_why_unwritable(error)}") from error
        if len(written) > self._longest:
            raise SerializationError(
                f"{self._where} cannot be stored: {len(written):,} bytes of JSON are more than the {self._longest:,} "
                "allowed; store it elsewhere and pass a reference"
            )
        if len(written) > SHORT_JSON and is_too_deep(written):
            raise SerializationError(
                f"{self._where} cannot be stored: it is nested deeper than the {DEEPEST_JSON} levels allowed; pass a "
                "flat list, or text"
            )
        if len(written) > MOST_VALUES and has_too_many_values(written):
            raise SerializationError(
                f"{self._where} cannot be stored: it has more than the {MOST_VALUES:,} values allowed, where lists, "
                "objects and keys count as one more; store it elsewhere and pass a reference"
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
        except Exception as error:  # noqa: BLE001 - comparing runs user code, and may recurse too deeply
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


def is_storable(text: str) -> bool:
    """Whether every store can hold the text: some take neither NUL nor unpaired surrogates."""
    return "\x00" not in text and text == text.encode("utf-8", "ignore").decode()


def shown_hint(hint: Any) -> str:
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return hint.__name__
    return str(hint).replace("typing.", "")


def _write_foreign(value: Any) -> Any:
    """Encode what msgspec cannot: paths, pydantic models, and subclasses of simple types."""
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
            # From JSON, not from Python objects: only there do strict models accept a date as text.
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
        # Enums cannot be sorted, nor can keys other than str: the order is then that of this process.
        return _ENCODER.encode(value)


def _may_hold_sets(hint: Any) -> bool:
    """Whether values may hold sets, which are sorted so that equal values have equal texts in every process."""
    from msgspec.inspect import type_info  # loaded here: only definitions in use need it

    return "SetType(" in repr(type_info(hint))


def _why_unwritable(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds an unpaired surrogate; decode the original text with the right encoding"
    if isinstance(error, RecursionError):
        return "it contains itself or is nested too deeply"
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
    """How the decoded value differs from the original; None when both mean the same."""
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
        return f"the key {redact(repr(key), 60)} of a dict would come back as text; {hint}use strings as keys"
    elif isinstance(given, datetime) and isinstance(read, datetime):
        # In the repeated hour of a zone, Python compares equal instants of different zones as unequal.
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
        return f"{_described(given)} would come back as a different, unequal one"
    what_to_do = f"annotate it with {type(given).__qualname__}, or pass the annotated type"
    if not annotated:
        what_to_do = f"pass {_described(read)}, and convert it to {_described(given)} where it is used"
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
