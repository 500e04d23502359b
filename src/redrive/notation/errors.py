"""Build the NotationError for a policy that cannot be read or written."""

import json
from itertools import islice
from typing import Any

from redrive.errors import NotationError
from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret

Path = tuple[str | int, ...]
"""The path from the top of a document to a value: mapping keys and list indexes."""

_LONGEST_SHOWN = 80


def notation_error(
    problem: str,
    *,
    key: str = "",
    value: Any = None,
    allowed: str = "",
    source: str = "<text>",
    line: int | None = None,
    column: int | None = None,
    path: Path = (),
    rule: str = "",
) -> NotationError:
    """Return the error for a value that cannot be read or written; its fields are described in NotationError."""
    # A credential written into a policy by mistake must not reach terminals and CI logs.
    shown = '"***"' if names_a_secret(key.rpartition(".")[2]) else show_value(value)
    subject = f"key '{printable(key)}', value {shown}: " if key else ""
    what = printable(problem, longest=400)
    joint = "" if what.endswith("?") else ";"
    rest = f"{joint} allowed: {printable(allowed, longest=600)}" if allowed else ""
    return NotationError(
        f"{show_where(source, line)}: {subject}{what}{rest}",
        problem=problem,
        key=key,
        value=value,
        allowed=allowed,
        source=source,
        line=line,
        column=column,
        path=path,
        rule=rule,
    )


def show_where(source: str, line: int | None) -> str:
    """Return "file:line", safe to print whatever the file is called."""
    shown = printable(source, longest=400)
    return shown if line is None else f"{shown}:{line}"


def show_value(value: Any) -> str:
    """Return the value as JSON, on one line and truncated."""
    try:
        if isinstance(value, str):
            value = value[: 10 * _LONGEST_SHOWN]
        elif isinstance(value, list | dict) and len(value) > _LONGEST_SHOWN:
            # What follows would be cut off anyway.
            value = value[:_LONGEST_SHOWN] if isinstance(value, list) else dict(islice(value.items(), _LONGEST_SHOWN))
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return printable(redact(text, limit=10 * _LONGEST_SHOWN))


def printable(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """Return the text on one line, truncated, with control characters escaped."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
