"""The names of graphs, steps, inputs and outputs."""

import re
from typing import Any

from redrive.notation.place import Place

LONGEST_NAME = 100
NAME_PATTERN = r"^[^\W\d][\w.-]*$"
NAME_WORDS = f"a letter, then letters, digits, _, - or ., at most {LONGEST_NAME} in all"

_NAME = re.compile(r"[^\W\d][\w.-]*\Z")


def read_name(value: Any, place: Place) -> str:
    if isinstance(value, str) and len(value) <= LONGEST_NAME and _NAME.match(value):
        return value
    raise place.refuse(value, "not a name", NAME_WORDS)


def read_names(value: Any, place: Place, most: int) -> tuple[str, ...]:
    """A list of names. Structure checks later whether they exist, and are listed once."""
    if not isinstance(value, list | tuple):
        raise place.refuse(value, "not a list", "a list of names, such as [check, reserve]")
    if len(value) > most:
        raise place.refuse(f"{len(value)} names", "too many", f"at most {most}")
    return tuple(read_name(one, place.at(index)) for index, one in enumerate(value))
