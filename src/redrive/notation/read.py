"""Read a policy from any notation."""

from collections.abc import Mapping
from typing import Any

from redrive.notation.catalogue import NOTATIONS, Notation
from redrive.notation.documents import find_policies
from redrive.notation.errors import notation_error
from redrive.notation.place import Place, similar
from redrive.notation.python_calls import keywords_as_data, parse_call
from redrive.notation.reading import Reading
from redrive.notation.recognise import looks_like_brackets, looks_like_call, nearest_notation, notation_of_call
from redrive.notation.source import load_document

AUTO = "auto"


def read_policy(what: Any, notation: str = AUTO, source: str = "<text>") -> Reading:
    """Read the policy from a text, or from plain data such as a mapping. NotationError when it cannot be read.

    `notation` is one of NOTATIONS, or "auto" to recognise it. `source` is the name of the text in error messages.
    """
    if notation != AUTO:
        known(notation)
    if isinstance(what, str):
        return read_text(what, notation, source)
    return read_data(what, Place("<data>" if source == "<text>" else source), notation)


def read_data(data: Any, place: Place, notation: str = AUTO) -> Reading:
    """Read the policy from plain data: the policy alone, or a larger document with one policy in it."""
    if notation != AUTO:
        return read_as(notation, *unwrapped(notation, data, place))
    found = find_policies(data, place)
    if len(found) > 1:
        places = ", ".join(f"{one.place.key} (line {one.place.line})" for one in found[:8])
        raise place.refuse(f"{len(found)} policies", "more than one policy", f"one policy; found {places}")
    if found:
        return read_as(found[0].notation, found[0].data, found[0].place)
    return read_as(nearest_notation(data, place), data, place)


def unwrapped(notation: str, data: Any, place: Place) -> tuple[Any, Place]:
    """Return the data under a key that only names the notation, such as `retry:`; other data as it is."""
    if isinstance(data, Mapping) and len(data) == 1 and (key := next(iter(data))) in NOTATIONS[notation].wrapper:
        return data[key], place.at(key)
    return data, place


def read_as(notation: str, data: Any, place: Place) -> Reading:
    """Read the policy from plain data in a given notation."""
    reader = NOTATIONS[notation].read
    if reader is None:
        raise place.refuse(data, f"{notation} is written as text", "text such as [retry: 3, backoff: 30s]")
    return reader(data, place)


def read_text(text: str, notation: str, source: str) -> Reading:
    """Read the policy from a text in a given notation, or in "auto"."""
    text = text.removeprefix("\ufeff")
    if notation == AUTO and looks_like_brackets(text):
        notation = "brackets"
    if notation != AUTO and (reader := NOTATIONS[notation].read_text) is not None:
        return reader(text, source)
    if (notation == AUTO or NOTATIONS[notation].calls) and looks_like_call(text):
        call = parse_call(text, source)
        name = notation_of_call(call, source) if notation == AUTO else notation
        positional = NOTATIONS[name].positional.get(call.name.rpartition(".")[2], ())
        data, place = keywords_as_data(call, source, positional)
        return read_as(name, data, place)
    document = load_document(text, source)
    return read_data(document.data, document.place, notation)


def known(notation: str) -> Notation:
    """Return the notation of that name; NotationError when there is none."""
    if notation not in NOTATIONS:
        raise notation_error(
            f"unknown{similar(notation, tuple(NOTATIONS))}",
            key="notation",
            value=notation,
            allowed=", ".join((AUTO, *NOTATIONS)),
            source="notation",
        )
    return NOTATIONS[notation]
