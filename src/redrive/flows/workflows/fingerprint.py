"""What a workflow knows, as a flat list that differs when something in it has changed."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

MOST_VALUES = 100_000
"""Values that are looked at; beyond, a change is not noticed."""
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def fingerprint(value: Any) -> list[Any]:
    """The structure and the plain values within `value`; other objects count by their identity and their fields."""
    found: list[Any] = []
    seen: set[int] = set()
    # Kept, so that no identity is used twice.
    left: list[Any] = [value]
    while left and len(found) < MOST_VALUES:
        one = left.pop()
        found.append(type(one))
        if isinstance(one, _PLAIN):
            found.append(one if one == one else "nan")
            continue
        found.append(id(one))
        if id(one) in seen:
            continue
        seen.add(id(one))
        parts = list(_parts(one))
        found.append(len(parts))
        left += reversed(parts)
    return found


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in value:
            yield key
            yield value[key]
    elif isinstance(value, list | tuple | Set):
        yield from value
    else:
        yield from vars(value).items() if hasattr(value, "__dict__") else ()
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    yield getattr(value, name)
