"""`redrive policy convert FILE.py`: the policies in Python source, as Python code and in a notation."""

from collections.abc import Iterable, Sequence
from typing import Any

import typer

from redrive.cli.exit_codes import FAILED
from redrive.cli.output import print_json, print_warnings, warnings_as_data
from redrive.notation.errors import printable, show_where
from redrive.notation.python_source.read_source import GENERAL_NOTES, SourcePolicy, Unread, read_source
from redrive.notation.reading import NamedWarning
from redrive.notation.write import write_lossy, write_policy

_INDENT = "    "


def convert_source(content: str, source: str, to: str, *, lossy: bool, as_json: bool) -> int:
    """Print each policy of a Python file. Returns the exit code: 1 when some settings could not be read."""
    found = read_source(content, source)
    written = [_written(one, to, lossy) for one in found.policies]
    if as_json:
        policies = [_as_data(*one) for one in zip(found.policies, written, strict=True)]
        general = warnings_as_data(GENERAL_NOTES) if policies else []
        unread = unread_as_data(found.unread)
        print_json({"source": source, "to": to, "policies": policies, "general": general, "unread": unread})
    else:
        for policy, (text, notes) in zip(found.policies, written, strict=True):
            typer.echo(f"{show_where(source, policy.line)}: {printable(policy.name)} ({policy.library})")
            typer.echo(_indented(policy.python))
            typer.echo(f"{_indented(text)}\n")
            print_warnings(notes, source)
        print_unread(found.unread, source)
        print_warnings(GENERAL_NOTES if found.policies else (), source)
        if not found.policies and not found.unread:
            typer.echo(f"{show_where(source, None)}: no retry settings found")
    return FAILED if found.unread else 0


def print_unread(unread: Iterable[Unread], source: str) -> None:
    """Say on stderr which settings could not be read."""
    for one in unread:
        typer.echo(
            f"{show_where(source, one.line)}: not read: {printable(one.name)} ({one.library}): {one.text}", err=True
        )


def unread_as_data(unread: Iterable[Unread]) -> list[dict[str, Any]]:
    return [{"line": one.line, "name": one.name, "library": one.library, "text": one.text} for one in unread]


def _written(one: SourcePolicy, to: str, lossy: bool) -> tuple[str, tuple[NamedWarning, ...]]:
    policy = one.reading.policy
    text, lost = write_lossy(policy, to) if lossy else (write_policy(policy, to), ())
    return text, (*one.notes, *lost)


def _as_data(one: SourcePolicy, written: tuple[str, Sequence[NamedWarning]]) -> dict[str, Any]:
    text, notes = written
    return {
        "line": one.line,
        "name": one.name,
        "library": one.library,
        "call": one.call,
        "python": one.python,
        "text": text,
        "only_in_python": dict(one.only_in_python),
        "warnings": warnings_as_data(notes),
    }


def _indented(text: str) -> str:
    # Line by line, so that nothing in the source can control the terminal.
    return "\n".join(_INDENT + printable(line, longest=1000) for line in text.rstrip("\n").split("\n"))
