"""Read a policy from any notation, write it in any that can hold it. Nothing is lost without a word."""

from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.failures.matching import Match
from redrive.notation.call_text import keywords_as_data, parse_call
from redrive.notation.catalogue import NOTATIONS, WRITABLE, Notation
from redrive.notation.documents import find_policies
from redrive.notation.durations import DurationError, write_duration
from redrive.notation.errors import notation_error
from redrive.notation.meaning import Answer, differences, meaning_of
from redrive.notation.native import failures_as_texts
from redrive.notation.place import Place, similar
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.recognise import looks_like_brackets, looks_like_call, nearest_notation, notation_of_call
from redrive.notation.source import load_document
from redrive.notation.wait_words import write_backoff, write_jitter
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy

AUTO = "auto"


def read_policy(what: Any, notation: str = AUTO, source: str = "<text>") -> Reading:
    """The policy in a text, or in plain data such as a mapping. NotationError, in one line, when there is none.

    `notation` is one of NOTATIONS, or "auto" to tell by the text itself. `source` is what errors call the text.
    """
    if notation != AUTO:
        known(notation)
    if isinstance(what, str):
        return _read_text(what, notation, source)
    return read_data(what, Place("<data>" if source == "<text>" else source), notation)


def read_data(data: Any, place: Place, notation: str = AUTO) -> Reading:
    """The policy in plain data at a place; it may stand alone, or be the only one in a larger document."""
    if notation != AUTO:
        return read_as(notation, *unwrapped(notation, data, place))
    found = find_policies(data, place)
    if len(found) > 1:
        places = ", ".join(f"{one.place.key} (line {one.place.line})" for one in found[:8])
        raise place.refuse(f"{len(found)} policies", "more than one", f"one policy; found {places}")
    if found:
        return read_as(found[0].notation, found[0].data, found[0].place)
    return read_as(nearest_notation(data, place), data, place)


def unwrapped(notation: str, data: Any, place: Place) -> tuple[Any, Place]:
    """What stands under a key that only says which notation it is, such as `retry:`."""
    if isinstance(data, Mapping) and len(data) == 1 and (key := next(iter(data))) in NOTATIONS[notation].wrapper:
        return data[key], place.at(key)
    return data, place


def read_as(notation: str, data: Any, place: Place) -> Reading:
    """The policy in plain data that is known to be in a notation."""
    reader = NOTATIONS[notation].read
    if reader is None:
        raise place.refuse(data, f"{notation} is a text", "text such as [retry: 3, backoff: 30s]")
    return reader(data, place)


def _read_text(text: str, notation: str, source: str) -> Reading:
    text = text.removeprefix("\ufeff")
    if notation == AUTO and looks_like_brackets(text):
        notation = "brackets"
    if notation != AUTO and (reader := NOTATIONS[notation].read_text) is not None:
        return reader(text, source)
    if (notation == AUTO or NOTATIONS[notation].calls) and looks_like_call(text):
        call = parse_call(text, source)
        name = notation_of_call(call, source) if notation == AUTO else notation
        data, place = keywords_as_data(call, source)
        return read_as(name, data, place)
    document = load_document(text, source)
    return read_data(document.data, document.place, notation)


def write_policy(policy: Policy, notation: str = "native") -> str:
    """The policy as text. NotationError for what the notation cannot express."""
    text, lost = _write(policy, notation)
    if lost:
        field, wanted, got = lost[0]
        others = f"; nor {', '.join(name for name, _, _ in lost[1:])}" if lost[1:] else ""
        raise notation_error(
            f"{notation} cannot express it{others}",
            key=field,
            value=_in_words(wanted),
            allowed=f"{_in_words(got)} there; a lossy conversion writes that, and warns",
            source=f"to {notation}",
        )
    return text


def write_lossy(policy: Policy, notation: str = "native") -> tuple[str, tuple[NamedWarning, ...]]:
    """The nearest text the notation has for the policy, and a warning for each thing lost on the way."""
    text, lost = _write(policy, notation)
    return text, tuple(
        NamedWarning("lost-" + field.rpartition(".")[2], f"{field} was {_in_words(wanted)}, is {_in_words(got)}", field)
        for field, wanted, got in lost
    )


def _write(policy: Policy, notation: str) -> tuple[str, list[tuple[str, object, object]]]:
    write = known(notation).write
    if write is None:
        raise notation_error(
            "can be read, but not written",
            key="notation",
            value=notation,
            allowed=", ".join(WRITABLE),
            source=f"to {notation}",
        )
    try:
        text = write(policy)
    except NotationError as error:
        raise notation_error(
            error.problem, key=error.key, value=error.value, allowed=error.allowed, source=f"to {notation}"
        ) from None
    except DurationError as error:
        problem = f"cannot be written down: {error}"
        raise notation_error(problem, allowed="durations from 1 ns", source=f"to {notation}") from None
    # What was written is read back: whatever does not survive that is a loss, foreseen or not.
    return text, differences(meaning_of(policy), meaning_of(_read_text(text, notation, notation).policy))


def known(notation: str) -> Notation:
    """The notation of that name; NotationError when there is none."""
    if notation not in NOTATIONS:
        raise notation_error(
            f"unknown{similar(notation, tuple(NOTATIONS))}",
            key="notation",
            value=notation,
            allowed=", ".join((AUTO, *NOTATIONS)),
            source="notation",
        )
    return NOTATIONS[notation]


def _in_words(value: object) -> str:
    """A policy's value as a person would write it."""
    if isinstance(value, Backoff):
        return write_backoff(value, "backoff")
    if isinstance(value, Jitter):
        return write_jitter(value, "jitter")
    if isinstance(value, Match):
        return ", ".join(failures_as_texts(value, "match")) or "nothing"
    if isinstance(value, float):
        return write_duration(value)
    if isinstance(value, tuple):
        matches = [_in_words(one.match) for one in value if isinstance(one, Answer)]
        return f"{len(matches)} answers ({'; '.join(matches)})" if matches else "no retries"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
