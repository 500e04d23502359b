"""One place in Python source where a library is told how to retry, before its settings are read."""

import ast
from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.notation.place import Position
from redrive.notation.reading import NamedWarning


class FoundCall(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one decorator, call, task or RetryPolicy."""

    library: str
    """The notation that reads the settings: tenacity, stamina, backoff, celery or temporal."""
    call: str
    """What is called, by its bare name: "retry", "on_exception", "RetryPolicy"."""
    name: str
    """What the settings apply to: a function, a variable, a class."""
    at: Position
    settings: Mapping[str, Any]
    """Argument -> its value, a plain one or one of python_values."""
    positions: Mapping[str, Position] = {}
    """Argument -> where it is written."""
    overrides: Mapping[str, Any] = {}
    """Policy field -> a value that is set beside the settings, such as a timeout of a Temporal activity."""
    notes: tuple[NamedWarning, ...] = ()
    function: ast.AST | None = None
    """The function that is decorated; two policies on one function are nested."""
    dialect: str = ""
    """The dialect of the reading."""
    form: str = ""
    """What takes the settings in redrive's code, with "..." in their place, if it depends on the source."""
    problem: str = ""
    """Why the settings cannot be known, if they cannot."""
