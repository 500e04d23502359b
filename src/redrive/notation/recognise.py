"""Recognises the notation of a text or a mapping by its keys. Ambiguous input is refused, never guessed."""

import re
from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.notation.catalogue import NOTATIONS, READABLE
from redrive.notation.errors import notation_error
from redrive.notation.place import Place
from redrive.notation.python_values import Call

_COMMENTS = re.compile(r"(?:\s|#[^\n]*)*")
_CALL = re.compile(r"@\s*[A-Za-z_]|[A-Za-z_][\w.]*\s*\(")
_ACTION = re.compile(r"(?:[A-Za-z_]\w*\s*=\s*)?@\s*([A-Za-z_][\w.]*)")
# tenacity and stamina both have a decorator of this name, and both are often imported by it.
_SHARED_NAME = "retry"
_CALL_NAMES = frozenset({_SHARED_NAME, *(call for notation in NOTATIONS.values() for call in notation.calls)})


def looks_like_brackets(text: str) -> bool:
    """Whether the text starts with `[` and a word, unlike a JSON list, or with an action call."""
    start = _COMMENTS.match(text)
    text = text[start.end() if start else 0 :]
    if text.startswith("["):
        inside = _COMMENTS.match(text, 1)
        following = text[inside.end() if inside else 1 :][:1]
        return following.isalnum() or following in ("_", "(", "]", "")
    action = _ACTION.match(text)
    return action is not None and action[1] not in _CALL_NAMES


def looks_like_call(text: str) -> bool:
    """Whether the text starts with a decorator or a Python call."""
    start = _COMMENTS.match(text)
    return _CALL.match(text, start.end() if start else 0) is not None


def notation_of_call(call: Call, source: str) -> str:
    """Recognise a call by its name, or by its arguments when several libraries share the name."""
    for notation in NOTATIONS.values():
        if call.name in notation.calls:
            return notation.name
    if call.name == _SHARED_NAME and call.keywords:
        return notation_of_keys(call.keywords, Place(source, {(): call.at}), ("tenacity", "stamina"))
    raise notation_error(
        f"{call.name}(...) is not a call of a known library",
        allowed=f"{', '.join(sorted(_CALL_NAMES))} with keyword arguments; or name the notation (--from tenacity)",
        source=source,
        line=call.at.line,
        column=call.at.column,
    )


def notation_that_knows_all(data: Mapping[str, Any], place: Place) -> str | None:
    """Return the notation that knows all these keys; None when none does, NotationError when several do."""
    fitting = [name for name in READABLE if _keys_known(data, name) == len(data)]
    return _one_of(fitting, data, place) if fitting else None


def nearest_notation(data: Any, place: Place) -> str:
    """Return the notation that the data was probably meant for, so that its error messages apply."""
    if not isinstance(data, Mapping) or not data:
        raise _unknown(data, place)
    return notation_of_keys(data, place, READABLE)


def notation_of_keys(data: Mapping[str, Any], place: Place, among: tuple[str, ...]) -> str:
    """Return the notation that knows most of these keys."""
    known = {name: _keys_known(data, name) for name in among}
    most = max(known.values())
    if most == 0:
        raise _unknown(data, place)
    return _one_of([name for name in among if known[name] == most], data, place)


def _keys_known(data: Mapping[str, Any], name: str) -> int:
    notation = NOTATIONS[name]
    if notation.identified_by and not any(key in notation.identified_by for key in data):
        return 0
    return sum(key in notation.keys for key in data)


def _one_of(fitting: list[str], data: Mapping[str, Any], place: Place) -> str:
    """Return the only candidate, or redrive's own notation if it is among them."""
    if len(fitting) == 1 or fitting[0] == "native":
        return fitting[0]
    raise place.refuse(
        dict(data), f"ambiguous: could be {' or '.join(fitting)}", f"name the notation, one of {', '.join(READABLE)}"
    )


def _unknown(data: Any, place: Place) -> NotationError:
    return place.refuse(data, "not in a known notation", f"a policy in one of {', '.join(READABLE)}")
