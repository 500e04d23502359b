"""Print JSON for programs, tables for people, and warnings on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from redrive.notation.errors import printable, show_where
from redrive.notation.reading import NamedWarning

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# Wide enough that a table in a pipe or a file is not folded.
_PLAIN_WIDTH = 160
# The narrowest that a folded column may be, and the space between columns, in characters.
_NARROWEST_COLUMN, _COLUMN_GAP = 3, 3


def print_json(data: Any) -> None:
    from redrive.formatting.text import terminal_json

    typer.echo(terminal_json(json.dumps(data, indent=2, ensure_ascii=False)))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False, whole: str = ""
) -> None:
    """Print a table: coloured in a terminal, plain text anywhere else. numbers: align all cells to the right.

    The column `whole` is never folded, so that its values can be copied. In a terminal that is too narrow for a table,
    each row is printed as a block of lines.
    """
    # Loaded here: rich takes longer to load than most commands take to run.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from redrive.formatting.text import terminal_text

    # What is stored may hold anything, and must not control the terminal.
    rows = [tuple(terminal_text(cell) for cell in row) for row in rows]
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
    if console.width < _narrowest(columns, rows, whole) and not numbers:
        _print_blocks(columns, rows)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        keep = numbers or column == whole
        table.add_column(column, justify="right" if numbers else "left", no_wrap=keep, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _narrowest(columns: Sequence[str], rows: Sequence[Sequence[str]], whole: str) -> int:
    """Return the width below which rich would cut or drop columns."""
    kept = [len(row[columns.index(whole)]) for row in rows] if whole else []
    return (_NARROWEST_COLUMN + _COLUMN_GAP) * (len(columns) - bool(whole)) + max(kept, default=0) + _COLUMN_GAP


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    name_width = max(map(len, columns))
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            if cell:
                typer.echo(f"{name:<{name_width}}  {cell}")
        typer.echo()


def print_warnings(warnings: Iterable[NamedWarning], source: str) -> None:
    """Print warnings on stderr, so that a file or a pipe gets the output alone."""
    for warning in warnings:
        where = show_where(source, warning.line)
        typer.echo(f"{where}: warning {warning.id}: {printable(warning.text, longest=400)}", err=True)


def warnings_as_data(warnings: Iterable[NamedWarning]) -> list[dict[str, Any]]:
    return [{"id": one.id, "text": one.text, "key": one.key, "line": one.line} for one in warnings]


def format_ago(seconds: float) -> str:
    from redrive.formatting.times import format_duration

    return f"{format_duration(float(round(max(0.0, seconds))))} ago"


def format_utc(at: float | None) -> str | None:
    """Format epoch seconds as ISO 8601 with milliseconds, in UTC."""
    from redrive.formatting.times import utc_datetime

    return None if at is None else utc_datetime(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
