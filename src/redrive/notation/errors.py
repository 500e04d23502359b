"""The one error of this room: a policy that cannot be read or written, told in one line."""

import json
from typing import Any

from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret

Path = tuple[str | int, ...]
"""The way from the top of a document to a value: keys of mappings, indexes of lists."""

_LONGEST_SHOWN = 80


class NotationError(ValueError):
    """Names the source, the line, the key, the value and what is allowed, in one line."""

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
        """What is wrong, in words."""
        self.key = key
        """The key it is about, with the way to it: "rules[0].backoff"; empty when the text could not be read."""
        self.value = value
        """What was written there."""
        self.allowed = allowed
        """What may be written there."""
        self.source = source
        """The file, or "<text>"."""
        self.line = line
        self.column = column
        self.path = path
        """The key as steps from the top of the document."""
        self.rule = rule
        """The linter's rule about this mistake, where it has one."""
        super().__init__(self._in_one_line())

    def _in_one_line(self) -> str:
        where = show_where(self.source, self.line)
        # What someone put into a policy by mistake may be a credential: the error goes to terminals and CI logs.
        value = '"***"' if names_a_secret(self.key.rpartition(".")[2]) else show_value(self.value)
        subject = f"key '{printable(self.key)}', value {value}: " if self.key else ""
        problem = printable(self.problem, longest=400)
        joint = "" if problem.endswith("?") else ";"
        allowed = f"{joint} allowed: {printable(self.allowed, longest=600)}" if self.allowed else ""
        return f"{where}: {subject}{problem}{allowed}"


def show_where(source: str, line: int | None) -> str:
    """ "file:line", whatever the file is called."""
    shown = printable(source, longest=400)
    return shown if line is None else f"{shown}:{line}"


def show_value(value: Any) -> str:
    """A value as it would be written in JSON, on one line and not too long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return printable(redact(text, limit=10 * _LONGEST_SHOWN))


def printable(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """Text that stays on one line and cannot drive a terminal."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
