"""Encode responses with long lists in pieces: each call of the encoder blocks the whole process."""

from collections.abc import Sequence
from typing import Any

import msgspec

ENCODED_AT_ONCE = 200
_encode = msgspec.json.encode


def encode_in_pieces(value: msgspec.Struct) -> bytes:
    """Return the same JSON as `msgspec.json.encode`."""
    return _encode(_with_pieces(value))


def _with_pieces(value: Any) -> Any:
    """The value with its long lists encoded already; short lists are searched for structs that have long ones."""
    if not isinstance(value, msgspec.Struct):
        return value
    encoded: dict[str, Any] = {}
    for name in value.__struct_fields__:
        one = getattr(value, name)
        if isinstance(one, list | tuple) and len(one) > ENCODED_AT_ONCE:
            encoded[name] = msgspec.Raw(b"[" + b",".join(_pieces(one)) + b"]")
        elif isinstance(one, list | tuple):
            encoded[name] = [_with_pieces(part) for part in one]
    return msgspec.structs.replace(value, **encoded) if encoded else value


def _pieces(values: Sequence[Any]) -> list[bytes]:
    return [
        _encode([_with_pieces(one) for one in values[first : first + ENCODED_AT_ONCE]])[1:-1]
        for first in range(0, len(values), ENCODED_AT_ONCE)
    ]
