"""How policies are written down: read any notation, write most of them, lint them all.

The names here load what they need when they are first used, so that durations cost nobody a YAML parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redrive.notation.catalogue import NOTATIONS, Notation
    from redrive.notation.durations import read_duration, write_duration
    from redrive.notation.linter import Finding, lint, lint_text
    from redrive.notation.native_json_schema import native_schema
    from redrive.notation.read import read_policy, write_lossy, write_policy
    from redrive.notation.reading import NamedWarning, Reading

_HOMES = {
    "NOTATIONS": "catalogue",
    "Notation": "catalogue",
    "read_duration": "durations",
    "write_duration": "durations",
    "Finding": "linter",
    "lint": "linter",
    "lint_text": "linter",
    "native_schema": "native_json_schema",
    "read_policy": "read",
    "write_lossy": "read",
    "write_policy": "read",
    "NamedWarning": "reading",
    "Reading": "reading",
}

__all__ = [
    "NOTATIONS",
    "Finding",
    "NamedWarning",
    "Notation",
    "Reading",
    "lint",
    "lint_text",
    "native_schema",
    "read_duration",
    "read_policy",
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
