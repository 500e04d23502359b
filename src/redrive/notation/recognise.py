"""Which notation a text or a mapping is in, told by its keys; what could be two is never guessed."""

import re
from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.notation.call_text import Call
from redrive.notation.catalogue import NOTATIONS, READABLE
from redrive.notation.errors import notation_error
from redrive.notation.place import Place

_COMMENTS = re.compile(r"(?:\s|#[^\n]*)*")
_CALL = re.compile(r"@\s*[A-Za-z_]|[A-Za-z_][\w.]*\s*\(")
_ACTION = re.compile(r"(?:[A-Za-z_]\w*\s*=\s*)?@\s*([A-Za-z_][\w.]*)")
# Both libraries name their decorator so, and both are imported by that bare name.
_ANYONES_CALL = "retry"
_CALL_NAMES = frozenset({_ANYONES_CALL, *(call for notation in NOTATIONS.values() for call in notation.calls)})


def looks_like_brackets(text: str) -> bool:
    """`[` with a word after it, or an action call; a JSON list begins with another sign."""
    start = _COMMENTS.match(text)
    text = text[start.end() if start else 0 :]
    if text.startswith("["):
        inside = _COMMENTS.match(text, 1)
        following = text[inside.end() if inside else 1 :][:1]
        return following.isalnum() or following in ("_", "(", "]", "")
    action = _ACTION.match(text)
    return action is not None and action[1] not in _CALL_NAMES


def looks_like_call(text: str) -> bool:
    start = _COMMENTS.match(text)
    return _CALL.match(text, start.end() if start else 0) is not None


def notation_of_call(call: Call, source: str) -> str:
    """By the name that is called, or by its arguments where several libraries use one name."""
    for notation in NOTATIONS.values():
        if call.name in notation.calls:
            return notation.name
    if call.name == _ANYONES_CALL and call.keywords:
        return notation_of_keys(call.keywords, Place(source, {(): call.at}), ("tenacity", "stamina"))
    raise notation_error(
        f"{call.name}(...) is not a policy that can be recognised",
        allowed=f"{', '.join(sorted(_CALL_NAMES))} with keyword arguments, or name the notation (--from tenacity)",
        source=source,
        line=call.at.line,
        column=call.at.column,
    )


def notation_that_knows_all(data: Mapping[str, Any], place: Place) -> str | None:
    """The notation whose keys these all are; None when there is none, NotationError when there are several."""
    fitting = [name for name in READABLE if _keys_known(data, name) == len(data)]
    return _one_of(fitting, data, place) if fitting else None


def nearest_notation(data: Any, place: Place) -> str:
    """The notation that data was probably meant to be in, so that what is wrong with it can be said."""
    if not isinstance(data, Mapping) or not data:
        raise _unknown(data, place)
    return notation_of_keys(data, place, READABLE)


def notation_of_keys(data: Mapping[str, Any], place: Place, among: tuple[str, ...]) -> str:
    """The one notation that knows the most of these keys."""
    known = {name: _keys_known(data, name) for name in among}
    most = max(known.values())
    if most == 0:
        raise _unknown(data, place)
    return _one_of([name for name in among if known[name] == most], data, place)


def _keys_known(data: Mapping[str, Any], name: str) -> int:
    notation = NOTATIONS[name]
    if notation.told_by and not any(key in notation.told_by for key in data):
        return 0
    return sum(key in notation.keys for key in data)


def _one_of(fitting: list[str], data: Mapping[str, Any], place: Place) -> str:
    """redrive's own where several fit and it is one of them."""
    if len(fitting) == 1 or fitting[0] == "native":
        return fitting[0]
    raise place.refuse(
        dict(data), f"could be {' or '.join(fitting)}", f"say which notation it is, one of {', '.join(READABLE)}"
    )


def _unknown(data: Any, place: Place) -> NotationError:
    return place.refuse(data, "in no notation that can be recognised", f"a policy in one of {', '.join(READABLE)}")
