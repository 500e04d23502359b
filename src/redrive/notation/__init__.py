"""Policies as text: read them from any notation, convert them, lint them.

The public names are imported when first used, so that reading a duration does not load the YAML parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redrive.notation.catalogue import NOTATIONS, Notation
    from redrive.notation.durations import read_duration, write_duration
    from redrive.notation.formats.native_json_schema import native_schema
    from redrive.notation.linting.linter import Finding, lint, lint_text
    from redrive.notation.python_source.lint_source import lint_source
    from redrive.notation.python_source.read_source import SourcePolicy, SourceReading, read_source
    from redrive.notation.read import read_policy
    from redrive.notation.reading import NamedWarning, Reading
    from redrive.notation.write import write_lossy, write_policy

_HOMES = {
    "NOTATIONS": "catalogue",
    "Notation": "catalogue",
    "read_duration": "durations",
    "write_duration": "durations",
    "Finding": "linting.linter",
    "lint": "linting.linter",
    "lint_source": "python_source.lint_source",
    "lint_text": "linting.linter",
    "native_schema": "formats.native_json_schema",
    "read_policy": "read",
    "read_source": "python_source.read_source",
    "SourcePolicy": "python_source.read_source",
    "SourceReading": "python_source.read_source",
    "write_lossy": "write",
    "write_policy": "write",
    "NamedWarning": "reading",
    "Reading": "reading",
}

__all__ = [
    "NOTATIONS",
    "Finding",
    "NamedWarning",
    "Notation",
    "Reading",
    "SourcePolicy",
    "SourceReading",
    "lint",
    "lint_source",
    "lint_text",
    "native_schema",
    "read_duration",
    "read_policy",
    "read_source",
    "write_duration",
    "write_lossy",
    "write_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
