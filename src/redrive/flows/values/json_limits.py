"""Limits on JSON that are checked before it is decoded: whoever decodes it holds the event loop meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Final

LONGEST_JSON: Final = 8 * 1024 * 1024
"""The most bytes of one result, or of the arguments of one call."""
DEEPEST_JSON: Final = 500
"""How deeply lists and objects may be nested; whatever reads them later may itself be deep in recursion."""
SHORT_JSON: Final = 2 * DEEPEST_JSON
"""JSON of so few bytes cannot be nested too deeply."""
MOST_VALUES: Final = 600_000
"""The most values of one JSON text. A list or an object counts as one more, and so does each key."""
LARGE_JSON: Final = 256 * 1024
"""Bytes from which decoding takes long enough to matter."""

_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_SIGNS = bytes(set(range(256)) - set(b'[{,:"'))
# Opening brackets become 1 and closing ones -1, as signed bytes.
_LEVELS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def is_too_deep(written: bytes) -> bool:
    """Whether JSON is nested deeper than allowed. Fast for short or flat JSON, as most is."""
    if len(written) <= SHORT_JSON or written.count(b"[") + written.count(b"{") <= DEEPEST_JSON:
        return False
    levels = memoryview(_outside_strings(written, _BRACKETS).translate(_LEVELS)).cast("b")
    return max(accumulate(levels), default=0) > DEEPEST_JSON


def has_too_many_values(written: bytes) -> bool:
    """Whether JSON has more values than allowed. One pass for short or plain JSON, a few for other."""
    if len(written) <= MOST_VALUES or _signs(written) < MOST_VALUES:
        return False
    # Each string is a value, or a key with a value; an escaped quote is two bytes, and at least two quotes make one.
    if (written.count(b'"') - written.count(b'\\"')) // 4 > MOST_VALUES:
        return True
    return len(_outside_strings(written, _SIGNS)) >= MOST_VALUES


def _signs(written: bytes) -> int:
    """How many values there can be: each but the first follows a comma, a colon or a bracket."""
    return sum(map(written.count, (b",", b":", b"[", b"{")))


def _outside_strings(written: bytes, dropped: bytes) -> bytes:
    """What is outside of strings, without the dropped bytes. `dropped` contains neither quotes nor what is wanted."""
    if b"\\" in written:
        # A backslash that is left after all pairs of them escapes what follows.
        written = written.replace(b"\\\\", b"").replace(b'\\"', b"")
    kept = written.translate(None, dropped)
    # Two quotes side by side change nothing about what is inside of a string.
    kept = kept.replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2]) if b'"' in kept else kept


@contextmanager
def without_collector(size: int) -> Iterator[None]:
    """Stop the garbage collector while JSON of so many bytes is decoded, if it is large: it would run many times over
    objects that are all in use. For the thread of the event loop."""
    if size < LARGE_JSON or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
