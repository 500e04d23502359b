"""NotationError: a policy cannot be read or written."""

import json
from typing import Any

from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret

Path = tuple[str | int, ...]
"""The path from the top of a document to a value: mapping keys and list indexes."""

_LONGEST_SHOWN = 80


class NotationError(ValueError):
    """A policy cannot be read or written; one line names the source, line, key, value and what is allowed."""

    def __init__(
        self,
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
    ) -> None:
        self.problem = problem
        """What is wrong."""
        self.key = key
        """The key, with its path: "rules[0].backoff"; empty when the text could not be parsed."""
        self.value = value
        """The value that was written."""
        self.allowed = allowed
        """The values that are allowed."""
        self.source = source
        """The file, or "<text>"."""
        self.line = line
        self.column = column
        self.path = path
        """The path to the key."""
        self.rule = rule
        """The lint rule about this mistake, if there is one."""
        super().__init__(self._in_one_line())

    def _in_one_line(self) -> str:
        where = show_where(self.source, self.line)
        # The value may be a credential put there by mistake, and errors go to terminals and CI logs.
        value = '"***"' if names_a_secret(self.key.rpartition(".")[2]) else show_value(self.value)
        subject = f"key '{printable(self.key)}', value {value}: " if self.key else ""
        problem = printable(self.problem, longest=400)
        joint = "" if problem.endswith("?") else ";"
        allowed = f"{joint} allowed: {printable(self.allowed, longest=600)}" if self.allowed else ""
        return f"{where}: {subject}{problem}{allowed}"


def show_where(source: str, line: int | None) -> str:
    """Return "file:line", safe to print whatever the file is called."""
    shown = printable(source, longest=400)
    return shown if line is None else f"{shown}:{line}"


def show_value(value: Any) -> str:
    """Return the value as JSON, on one line and truncated."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return printable(redact(text, limit=10 * _LONGEST_SHOWN))


def printable(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """Return the text on one line, truncated, with control characters escaped."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
