"""The form of texts that a codec has encoded: JSON of one object, with the id of the key and the data in base64.

It is an array, as a row of the log is, so that SQL which reads logs goes on working.
"""

import base64
import binascii
import re

_BEGIN = '[{"type":"encoded","key":"'
_MIDDLE, _END = '","data":"', '"}]'
KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def write_encoded(key: str, data: bytes) -> str:
    return f"{_BEGIN}{key}{_MIDDLE}{base64.b64encode(data).decode()}{_END}"


def key_of(text: str) -> str | None:
    """Return the id of the key with which the text is encoded; None where it is not encoded."""
    if not text.startswith(_BEGIN):
        return None
    found = KEY_ID.match(text, len(_BEGIN))
    return found[0] if found and text.startswith(_MIDDLE, found.end()) and text.endswith(_END) else None


def data_of(text: str, key: str) -> bytes:
    """Return the data of a text that is encoded with this key; ValueError where it is not base64."""
    try:
        return base64.b64decode(text[len(_BEGIN) + len(key) + len(_MIDDLE) : -len(_END)], validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None


def how_to_decode(key: str) -> str:
    """Say which key a text needs, and how to give it."""
    return (
        f"encoded with key {key}, with which this process cannot decode them; "
        "give it the key with codec= or REDRIVE_CODEC_KEYS"
    )
