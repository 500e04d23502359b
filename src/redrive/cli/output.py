"""How commands print: JSON for programs, tables for people, warnings beside the answer."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from redrive.notation.errors import printable, show_where
from redrive.notation.reading import NamedWarning

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Wide enough that a table in a pipe or a file is not folded.
_PLAIN_WIDTH = 160
# Characters of a column that is folded, and between columns.
_FEWEST, _BETWEEN = 3, 3


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False, whole: str = ""
) -> None:
    """A table: coloured in a terminal, plain text anywhere else. `numbers` are set to the right.

    The column `whole` is never folded: what is to be copied stays in one piece. In a terminal that is too narrow for a
    table the rows stand below each other.
    """
    # Loaded here: it costs more than the rest of a command that prints no table.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
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
    """The width below which columns of a table would be cut, or left out."""
    kept = [len(row[columns.index(whole)]) for row in rows] if whole else []
    return (_FEWEST + _BETWEEN) * (len(columns) - bool(whole)) + max(kept, default=0) + _BETWEEN


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    name_width = max(map(len, columns))
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            if cell:
                typer.echo(f"{name:<{name_width}}  {cell}")
        typer.echo()


def print_warnings(warnings: Iterable[NamedWarning], source: str) -> None:
    """On stderr, so that what goes to a file or a pipe is the answer alone."""
    for warning in warnings:
        where = show_where(source, warning.line)
        typer.echo(f"{where}: warning {warning.id}: {printable(warning.text, longest=400)}", err=True)


def warnings_as_data(warnings: Iterable[NamedWarning]) -> list[dict[str, Any]]:
    return [{"id": one.id, "text": one.text, "key": one.key, "line": one.line} for one in warnings]
