"""Exception classes by name, for notations that know no other way to say which failures they mean.

Python keeps some old names as aliases; no raised error carries them, so they are read as what they stand for.
"""

from typing import Any

from redrive.failures.matching import ANYTHING, NOTHING, Match, as_match
from redrive.notation.fields import NOT_ALLOWED, Fields
from redrive.notation.place import Place
from redrive.notation.reading import NamedWarning

RENAMED = {
    "IOError": "OSError",
    "EnvironmentError": "OSError",
    "WindowsError": "OSError",
    "select.error": "OSError",
    "socket.error": "OSError",
    "socket.timeout": "TimeoutError",
    "asyncio.TimeoutError": "TimeoutError",
    "asyncio.exceptions.TimeoutError": "TimeoutError",
    "concurrent.futures.TimeoutError": "TimeoutError",
    "builtins.Exception": "Exception",
}
"""Alias -> the name the class has."""


def with_current_names(match: Match) -> Match:
    """The same failures, by names that errors carry; the class of all of them becomes "any"."""
    together = NOTHING
    for name in match.names:
        name = RENAMED.get(name, name)
        together = together | (ANYTHING if name in ("Exception", "BaseException") else Match(names=(name,)))
    return together | Match(
        categories=match.categories, types=match.types, statuses=match.statuses, predicates=match.predicates
    )


def read_class_names(value: Any, place: Place, allowed: str) -> Match:
    """One class name or a list of them; from Python, the classes themselves."""
    together = NOTHING
    listed = isinstance(value, list | tuple)
    for index, one in enumerate(value if listed else (value,)):
        if isinstance(one, type) and issubclass(one, Exception):
            together = together | as_match(one)
        elif isinstance(one, str) and all(part.isidentifier() or part == "<locals>" for part in one.split(".")):
            together = together | Match(names=(one,))
        else:
            raise (place.at(index) if listed else place).refuse(one, NOT_ALLOWED, allowed)
    return with_current_names(together)


def dotted_names(match: Match, fields: Fields, key: str) -> list[NamedWarning]:
    """A warning for each name that holds only where the class really lives, not wherever it can be imported from."""
    return [
        fields.warning(
            "dotted-name",
            key,
            f"{name} is compared with the module that defines the class and the packages around it; "
            f"write {name.rpartition('.')[2]} if it comes from elsewhere",
        )
        for name in match.names
        if "." in name
    ]
