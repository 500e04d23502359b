"""Exception classes by name, for notations that have no other way to name failures.

Python keeps some old class names as aliases. No error has such a name, so the current name is used instead.
"""

import sys
from typing import Any

from redrive.failures.known_errors.lookup import KNOWN_ERRORS
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
"""Alias -> the current name of the class."""


_WELL_NAMED = sys.stdlib_module_names | {name.partition(".")[0] for name in KNOWN_ERRORS}


def with_current_names(match: Match) -> Match:
    """Replace aliases by current class names, and Exception by "any"."""
    together = NOTHING
    for name in match.names:
        name = RENAMED.get(name, name)
        together = together | (ANYTHING if name in ("Exception", "BaseException") else Match(names=(name,)))
    return together | Match(
        categories=match.categories, types=match.types, statuses=match.statuses, predicates=match.predicates
    )


def read_class_names(value: Any, place: Place, allowed: str) -> Match:
    """Read one class name or a list of them; from Python, also the classes themselves."""
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
    """Warn about names that match only if the module in them defines the class, or a module below it does.

    Python's own modules and the libraries that redrive knows keep to that.
    """
    return [
        fields.warning(
            "dotted-name",
            key,
            f"{name} matches only if {name.rpartition('.')[0]} or a module below it defines the class; if it imports "
            f"the class from elsewhere, write {name.rpartition('.')[2]}",
        )
        for name in match.names
        if "." in name and name.partition(".")[0] not in _WELL_NAMED
    ]
