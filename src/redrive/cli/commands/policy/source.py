"""Read the policy that a command is given: from a file, from standard input, or from --text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from redrive.notation.catalogue import READABLE
from redrive.notation.errors import notation_error
from redrive.notation.source import LARGEST_TEXT

PYTHON = "python"
"""The name of Python source as a notation: it is found in a .py file, and may hold several policies."""

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A file with the policy; - for standard input.")]
TextOption = Annotated[str, typer.Option("--text", metavar="TEXT", help="The policy itself, instead of a file.")]
FromOption = Annotated[str, typer.Option("--from", metavar="NOTATION", help=f"auto, or one of {', '.join(READABLE)}.")]
FromOrPythonOption = Annotated[
    str,
    typer.Option("--from", metavar="NOTATION", help=f"auto, or one of {', '.join(READABLE)}, or python for source."),
]

STDIN = "-"
_ONE_SOURCE = "a FILE, - for standard input, or --text"


def read_source(file: str, text: str) -> tuple[str, str]:
    """Return the text, and the name that errors give it."""
    if bool(file) == bool(text):
        problem = "both FILE and --text are given" if file else "no policy is given"
        raise notation_error(problem, key="FILE", value=file, allowed=_ONE_SOURCE, source="redrive")
    if text:
        return text, "<text>"
    source = "<stdin>" if file == STDIN else file
    return _decoded(_bytes_of(file, source), source), source


def _bytes_of(file: str, source: str) -> bytes:
    most = LARGEST_TEXT * 4 + 1
    if file != STDIN and Path(file).is_dir():
        allowed = "a file, such as tasks.py or policy.yaml; redrive doctor checks the Python files of a folder"
        raise notation_error("is a folder", allowed=allowed, source=source)
    try:
        if file == STDIN:
            if sys.stdin is None:
                raise notation_error("standard input is closed", allowed="a file, or --text '...'", source=source)
            return sys.stdin.buffer.read(most)
        with Path(file).open("rb") as opened:
            return opened.read(most)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        allowed = "a readable file; for a policy as text: --text '...'"
        raise notation_error(f"cannot be read: {reason}", allowed=allowed, source=source) from None


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise notation_error(
            f"byte {error.start + 1} is not UTF-8", allowed="text in UTF-8", source=source, line=line
        ) from None


def is_python(file: str, notation: str) -> bool:
    """Whether the command was given Python source: a .py file, or `--from python`."""
    return notation == PYTHON or (notation == "auto" and file.endswith((".py", ".pyi")))
