"""Finds policies inside larger documents, and which of them are nested in which."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from redrive.notation.catalogue import NOTATIONS
from redrive.notation.place import Place
from redrive.notation.recognise import notation_that_knows_all
from redrive.notation.source import DEEPEST

_WRAPPERS = {key: notation.name for notation in NOTATIONS.values() for key in notation.wrapper}


class Found(msgspec.Struct, frozen=True):
    """A policy in a document, before it is read."""

    notation: str
    data: Any
    place: Place
    inside: tuple["Found", ...] = ()
    """The policies around it, or beside it on the same work: each retries what this one retries already."""


def find_policies(data: Any, place: Place) -> list[Found]:
    """Return all policies in a document, outer ones first. The document itself may be one."""
    found: list[Found] = []
    if isinstance(data, Mapping):
        own = {key: value for key, value in data.items() if not _is_wrapper(key, value)}
        if own and (notation := notation_that_knows_all(own, place)) is not None:
            if NOTATIONS[notation].whole:
                return [Found(notation, data, place)]
            found.append(Found(notation, own, place))
    elif _is_retriers(data):
        return [Found("step_functions", data, place)]
    _search(data, place, tuple(found), found)
    return found


def _search(data: Any, place: Place, around: tuple[Found, ...], found: list[Found]) -> None:
    if len(place.path) > DEEPEST:
        return
    if isinstance(data, Mapping):
        for key, value in data.items():
            if _is_wrapper(key, value):
                one = Found(_WRAPPERS[key], value, place.at(key), around)
                found.append(one)
                around = (*around, one)
    for key, value in _children(data):
        if not _is_wrapper(key, value):
            _search(value, place.at(key), around, found)


def _children(data: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(data, Mapping):
        yield from ((str(key), value) for key, value in data.items())
    elif isinstance(data, list | tuple):
        yield from enumerate(data)


def _is_wrapper(key: object, value: Any) -> bool:
    if key == "Retry":
        return _is_retriers(value)
    return isinstance(key, str) and key in _WRAPPERS and isinstance(value, Mapping)


def _is_retriers(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and any(isinstance(one, Mapping) and "ErrorEquals" in one for one in value)
    )
